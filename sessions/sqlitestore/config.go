package sqlitestore

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"
)

// Config is what Open needs. Zero values are the defaults named here.
type Config struct {
	// Path is the database file, absolute; its directory must exist. Required.
	Path string
	// Logger: default slog.Default().
	Logger *slog.Logger
	// Now is the clock of times to live: default time.Now.
	Now func() time.Time

	// MaxBytes bounds the database file; a write beyond it fails as on a full disk. 0: only the disk bounds it. The
	// smallest bound is 1 MiB.
	MaxBytes int64
	// GroupOps and GroupBytes bound what one transaction takes from the callers that wait: default 1,024 calls and 8 MiB.
	// One call of any size is always taken.
	GroupOps   int
	GroupBytes int64
	// Readers is how many reads run at once: default 4.
	Readers int
	// PurgeEvery is how often records whose time to live is over are removed from the file: default 1 min.
	PurgeEvery time.Duration
}

const minMaxBytes = 1 << 20

// Validate returns every problem of c at once, each as "field: problem (got value)".
func (c Config) Validate() error {
	var problems []error
	bad := func(field, problem string, got any) {
		problems = append(problems, fmt.Errorf("%s: %s (got %v)", field, problem, got))
	}
	if !filepath.IsAbs(c.Path) {
		bad("Path", "must be absolute", fmt.Sprintf("%q", c.Path))
	}
	if c.MaxBytes != 0 && c.MaxBytes < minMaxBytes {
		bad("MaxBytes", fmt.Sprintf("must be 0 or at least %d", minMaxBytes), c.MaxBytes)
	}
	if c.GroupOps < 0 {
		bad("GroupOps", "must not be negative", c.GroupOps)
	}
	if c.GroupBytes < 0 {
		bad("GroupBytes", "must not be negative", c.GroupBytes)
	}
	if c.Readers < 0 {
		bad("Readers", "must not be negative", c.Readers)
	}
	if c.PurgeEvery < 0 {
		bad("PurgeEvery", "must not be negative", c.PurgeEvery)
	}
	return errors.Join(problems...)
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.GroupOps == 0 {
		c.GroupOps = 1024
	}
	if c.GroupBytes == 0 {
		c.GroupBytes = 8 << 20
	}
	if c.Readers == 0 {
		c.Readers = 4
	}
	if c.PurgeEvery == 0 {
		c.PurgeEvery = time.Minute
	}
	return c
}
