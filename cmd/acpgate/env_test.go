package main

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
)

// parse reads a command line as run does.
func parse(t *testing.T, environ []string, args ...string) (settings, error) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, kong.ExplicitGroups(flagGroups), kong.Resolvers(newEnvironment(environ)))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return c.Serve.settings, err
}

func TestT6_EveryFlagHasAVariable(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.ExplicitGroups(flagGroups))
	if err != nil {
		t.Fatal(err)
	}
	other := func(flag *kong.Flag) string { // a value that is not the default
		switch flag.Target.Interface().(type) {
		case time.Duration:
			return "7s"
		case byteSize:
			return "7KiB"
		case int:
			return "7"
		case bool:
			return "true"
		}
		if flag.Enum != "" {
			values := flag.EnumSlice()
			if values[0] != flag.Default {
				return values[0]
			}
			return values[1]
		}
		return "x"
	}
	for _, flag := range commandNode(parser.Model.Node, "serve").Flags {
		value := other(flag)
		byVariable, err := parse(t, []string{envName(flag.Name) + "=" + value})
		if err != nil {
			t.Errorf("%s=%s: %v", envName(flag.Name), value, err)
			continue
		}
		byFlag, err := parse(t, nil, "--"+flag.Name+"="+value)
		if err != nil {
			t.Errorf("--%s=%s: %v", flag.Name, value, err)
			continue
		}
		if !reflect.DeepEqual(byVariable, byFlag) {
			t.Errorf("%s=%s gives %+v, the flag %+v", envName(flag.Name), value, byVariable, byFlag)
		}
		unset, err := parse(t, nil)
		if err != nil {
			t.Fatal(err)
		}
		if reflect.DeepEqual(byVariable, unset) {
			t.Errorf("%s=%s changes nothing", envName(flag.Name), value)
		}
	}
}

func TestEnvironment(t *testing.T) {
	got, err := parse(t, []string{
		"HOME=/home/ann", "ACPGATE_AGENT=a=x, y\n\n b=z ", "ACPGATE_ROOT=/a:/b\n/c", "ACPGATE_PING=3s", "ACPGATE_TOKEN_FILE=",
		"ACPGATE_QUEUE=3",
	}, "--queue", "4")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a=x, y", "b=z"}; !slices.Equal(got.Agent, want) {
		t.Errorf("Agent = %q, want %q", got.Agent, want)
	}
	if want := []string{"/a", "/b", "/c"}; !slices.Equal(got.Root, want) {
		t.Errorf("Root = %q, want %q", got.Root, want)
	}
	if got.Ping.String() != "3s" || got.TokenFile != "" {
		t.Errorf("Ping = %v, TokenFile = %q", got.Ping, got.TokenFile)
	}
	if got.Queue != 4 {
		t.Errorf("Queue = %d: the flag must win", got.Queue)
	}
}

func TestEnvironmentRefusesWhatItDoesNotKnow(t *testing.T) {
	_, err := parse(t, []string{"ACPGATE_PIN=1s", "ACPGATE_FRAMELIMIT=1", "ACPGATE_XYZ=1", "ACPGATE=1", "OTHER_PIN=1"})
	want := "ACPGATE_FRAMELIMIT: no such setting, did you mean ACPGATE_FRAME_LIMIT?\n" +
		"ACPGATE_PIN: no such setting, did you mean ACPGATE_PING?\n" +
		"ACPGATE_XYZ: no such setting"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestEnvironmentIgnoresServiceLinks(t *testing.T) {
	links := []string{
		"ACPGATE_SERVICE_HOST=10.0.0.1", "ACPGATE_SERVICE_PORT=8080", "ACPGATE_SERVICE_PORT_HTTP=8080", "ACPGATE_PORT=tcp://10.0.0.1:8080",
		"ACPGATE_PORT_8080_TCP=tcp://10.0.0.1:8080", "ACPGATE_PORT_8080_TCP_PROTO=tcp", "ACPGATE_PORT_8080_TCP_PORT=8080",
		"ACPGATE_PORT_8080_TCP_ADDR=10.0.0.1",
	}
	if _, err := parse(t, append(links, "KUBERNETES_SERVICE_HOST=10.0.0.2")); err != nil {
		t.Errorf("in a pod: %v", err)
	}
	if _, err := parse(t, links); err == nil || strings.Count(err.Error(), "no such setting") != len(links) {
		t.Errorf("elsewhere: %v", err)
	}
	if _, err := parse(t, []string{"KUBERNETES_SERVICE_HOST=10.0.0.2", "ACPGATE_PORTS=1"}); err == nil {
		t.Error("in a pod, an unknown setting passed")
	}
}

func TestErrorsNameTheVariable(t *testing.T) {
	for _, tc := range []struct {
		environ, args []string
		want          string
	}{
		{[]string{"ACPGATE_PING=x"}, nil, `--ping: expected duration but got "x": time: invalid duration "x" (from ACPGATE_PING)`},
		{[]string{"ACPGATE_AUTH=x"}, nil, `--auth must be one of "token","proxy","none" but got "x" (from ACPGATE_AUTH)`},
		{[]string{"ACPGATE_PING=3s"}, []string{"--ping=x"}, `--ping: expected duration but got "x": time: invalid duration "x"`},
	} {
		var out bytes.Buffer
		err := runCommand(context.Background(), tc.args, tc.environ, &out, &out)
		if err == nil {
			t.Fatalf("%v %v: no error", tc.environ, tc.args)
		}
		if line, _, _ := strings.Cut(err.Error(), "\n"); line != tc.want {
			t.Errorf("got  %s\nwant %s", line, tc.want)
		}
		var usage usageError
		if !errors.As(err, &usage) {
			t.Errorf("%v is not a usage error", err)
		}
	}
}
