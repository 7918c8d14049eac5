package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestURL_Forms(t *testing.T) {
	for raw, want := range map[string]place{
		"redis://localhost":                            {addrs: []string{"localhost:6379"}},
		"redis://10.0.0.1:7000/3":                      {addrs: []string{"10.0.0.1:7000"}, db: 3},
		"redis://10.0.0.1:7000?db=4":                   {addrs: []string{"10.0.0.1:7000"}, db: 4},
		"redis://[::1]:7000":                           {addrs: []string{"[::1]:7000"}},
		"redis://[::1]":                                {addrs: []string{"[::1]:6379"}},
		"rediss://user:p%40ss%3Aw%2Ford@h":             {tls: true, addrs: []string{"h:6379"}, user: "user", password: "p@ss:w/ord"},
		"redis://:pass@h":                              {addrs: []string{"h:6379"}, password: "pass"},
		"redis+sentinel://a,b:5/mymaster":              {addrs: []string{"a:26379", "b:5"}, master: "mymaster"},
		"rediss+sentinel://u:p@a/my%20m?db=2":          {tls: true, addrs: []string{"a:26379"}, master: "my m", db: 2, user: "u", password: "p"},
		"redis+sentinel://a/m?sentinel_user=su":        {addrs: []string{"a:26379"}, master: "m", sentinelUser: "su"},
		"redis+sentinel://a/m?sentinel_password=s%26p": {addrs: []string{"a:26379"}, master: "m", sentinelPassword: "s&p"},
		"redis+cluster://a:7000,b:7001,[fe80::1]:7002": {cluster: true, addrs: []string{"a:7000", "b:7001", "[fe80::1]:7002"}},
		"rediss+cluster://:pw@clustercfg.example.com":  {tls: true, cluster: true, addrs: []string{"clustercfg.example.com:6379"}, password: "pw"},
		"redis+cluster://a/":                           {cluster: true, addrs: []string{"a:6379"}},
	} {
		got, err := parseURL(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
		} else if diff := cmp.Diff(want, got, cmp.AllowUnexported(place{})); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	}
}

func TestURL_Mistakes(t *testing.T) {
	for raw, says := range map[string]string{
		"":                                "must begin with",
		"localhost:6379":                  "must begin with",
		"http://localhost":                "unknown scheme",
		"redis+tls://localhost":           "unknown scheme",
		"redis://":                        "is not host",
		"redis://h:0":                     "is not host",
		"redis://h:port":                  "is not host",
		"redis://h:70000":                 "is not host",
		"redis://a,b":                     "several hosts",
		"redis://a/x":                     "number of a database",
		"redis://a/-1":                    "number of a database",
		"redis://a/1?db=2":                "option",
		"redis://a?pool_size=5":           `option "pool_size"`,
		"redis://a?db=1&db=2":             "repeated",
		"redis://u:%zz@a":                 "percent-encoded",
		"redis://a/%zz":                   "percent-encoded",
		"redis://a?%zz":                   "query",
		"redis+sentinel://a,b":            "name",
		"redis+sentinel://a,b/":           "name",
		"redis+sentinel://a,,b/m":         "is not host",
		"redis+cluster://a/2":             "no path",
		"redis+cluster://a?db=2":          "option",
		"redis://u:hunter2@a,b":           "several hosts",
		"redis+sentinel://u:hunter2@a?x=": "name",
	} {
		_, err := parseURL(raw)
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want one that says %q and no secret", raw, err, says)
		}
		if strings.Contains(redact(raw), "hunter2") {
			t.Errorf("%s is shown as %s", raw, redact(raw))
		}
	}
}

func TestConfig_Validate(t *testing.T) {
	if err := (Config{URL: "redis://h"}).Validate(); err != nil {
		t.Error(err)
	}
	err := Config{
		URL: "redis://u:hunter2@a,b", Prefix: "a{b}", DialTimeout: -time.Second, Timeout: -1, PoolSize: -2, PipelineBytes: -3, PipelineRuns: -4, PingEvery: -5,
	}.Validate()
	const want = `URL: several hosts need redis+sentinel:// or redis+cluster:// (got "redis://...@a,b")
Prefix: must not contain braces or NUL (got "a{b}")
DialTimeout: must not be negative (got -1s)
Timeout: must not be negative (got -1ns)
PingEvery: must not be negative (got -5ns)
PoolSize: must not be negative (got -2)
PipelineBytes: must not be negative (got -3)
PipelineRuns: must not be negative (got -4)`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	if _, err := Open(t.Context(), Config{}); err == nil {
		t.Error("opened without a URL")
	}
}

func TestVersion_OldServersAreRefused(t *testing.T) {
	for text, want := range map[string][2]int{"6.2.14": {6, 2}, "7.0.15": {7, 0}, "7.4": {7, 4}} {
		if major, minor, err := version(text); err != nil || major != want[0] || minor != want[1] {
			t.Errorf("%s: %d.%d, %v", text, major, minor, err)
		}
	}
	for _, text := range []string{"", "7", "x.y"} {
		if _, _, err := version(text); err == nil {
			t.Errorf("%q is a version", text)
		}
	}
}
