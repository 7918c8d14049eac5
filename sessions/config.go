package sessions

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/acpgate/acpgate/sessions/journal"
)

// Policy says what happens to an agent's request when nobody is attached (rule V18).
type Policy string

const (
	PolicyWait   Policy = "wait"   // for ever
	PolicyReject Policy = "reject" // after Config.PolicyAfter without attachments the reject option is picked, else cancelled
)

// Config configures a Manager. Zero values are the documented defaults.
type Config struct {
	Agents Agents // required
	Logger *slog.Logger
	Audit  *slog.Logger // who opened what and who answered what; nil drops it

	// Roots are the directories in which sessions may work: absolute, existing. Required. The first is the default.
	Roots []string

	// Store keeps sessions, views and journals over a restart. Nil: nothing outlives the Manager.
	Store Store

	Journal       journal.Limits
	JournalMemory int64 // bytes of all journals together, default 2 GiB

	Queue           int           // prompts that may wait behind a turn, default 8
	RequestPolicy   Policy        // default PolicyWait
	PolicyAfter     time.Duration // default 60 s
	SleepAfter      time.Duration // default 30 min
	EmptyAfter      time.Duration // an unattached view that was never prompted is closed after this, default 5 min
	ForceAfter      time.Duration // force stop is offered this long after a cancel, default 10 s
	CloseWait       time.Duration // how long close waits for a cancelled turn, default 5 s
	CallTimeout     time.Duration // for calls of ours to an agent (open, close, list), default 120 s
	ViewsPerUser    int           // live views of one principal, default 1000
	RequestsPerView int           // open requests of the agent in one view, default 64
	CallsPerView    int           // open calls of clients in one view beside prompts, default 64
	KeysPerView     int           // remembered prompt keys of one view, default 256
	SlotTTL         time.Duration // for which a staged side conversation can be opened, default 15 min
	Adopt           bool          // every session/new adopts as if it had asked to (rule V14)
	SideGateOff     bool          // side conversations may change things; they are only advised not to
	KeyTTL          time.Duration // for which a prompt key is remembered, default 24 h
}

func (c Config) withDefaults() Config {
	def := func(p *time.Duration, d time.Duration) {
		if *p == 0 {
			*p = d
		}
	}
	num := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == nil {
		c.Audit = slog.New(slog.DiscardHandler)
	}
	if c.RequestPolicy == "" {
		c.RequestPolicy = PolicyWait
	}
	c.Journal = c.Journal.WithDefaults()
	num(&c.Queue, 8)
	num(&c.ViewsPerUser, 1000)
	num(&c.RequestsPerView, 64)
	num(&c.CallsPerView, 64)
	num(&c.KeysPerView, 256)
	def(&c.PolicyAfter, time.Minute)
	def(&c.SleepAfter, 30*time.Minute)
	def(&c.EmptyAfter, 5*time.Minute)
	def(&c.ForceAfter, 10*time.Second)
	def(&c.CloseWait, 5*time.Second)
	def(&c.CallTimeout, 2*time.Minute)
	def(&c.KeyTTL, 24*time.Hour)
	def(&c.SlotTTL, 15*time.Minute)
	return c
}

// Validate reports every problem of c at once.
func (c Config) Validate() error {
	var errs []error
	bad := func(field, problem string, got any) {
		errs = append(errs, fmt.Errorf("%s: %s (got %v)", field, problem, got))
	}
	if c.Agents == nil {
		bad("Agents", "is required", nil)
	}
	if len(c.Roots) == 0 {
		bad("Roots", "at least one directory is required", c.Roots)
	}
	for _, r := range c.Roots {
		if !filepath.IsAbs(r) {
			bad("Roots", "must be absolute", r)
		}
	}
	if c.RequestPolicy != "" && c.RequestPolicy != PolicyWait && c.RequestPolicy != PolicyReject {
		bad("RequestPolicy", "must be wait or reject", c.RequestPolicy)
	}
	for _, f := range []struct {
		name string
		n    int64
	}{
		{"Queue", int64(c.Queue)},
		{"ViewsPerUser", int64(c.ViewsPerUser)},
		{"RequestsPerView", int64(c.RequestsPerView)},
		{"CallsPerView", int64(c.CallsPerView)},
		{"KeysPerView", int64(c.KeysPerView)},
		{"JournalMemory", c.JournalMemory},
		{"Journal.MaxEvents", int64(c.Journal.MaxEvents)},
		{"Journal.MaxBytes", c.Journal.MaxBytes},
		{"Journal.MaxAge", int64(c.Journal.MaxAge)},
		{"PolicyAfter", int64(c.PolicyAfter)},
		{"SleepAfter", int64(c.SleepAfter)},
		{"EmptyAfter", int64(c.EmptyAfter)},
		{"ForceAfter", int64(c.ForceAfter)},
		{"CloseWait", int64(c.CloseWait)},
		{"CallTimeout", int64(c.CallTimeout)},
		{"KeyTTL", int64(c.KeyTTL)},
		{"SlotTTL", int64(c.SlotTTL)},
	} {
		if f.n < 0 {
			bad(f.name, "must not be negative", f.n)
		}
	}
	return errors.Join(errs...)
}
