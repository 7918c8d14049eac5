package wire

import (
	"errors"
	"fmt"
)

// Defaults and bounds of Limits.
const (
	DefaultMaxDepth = 512
	MaxMaxDepth     = 10_000
	DefaultMaxID    = 1024
)

// Limits bounds what Parse accepts. The zero value is the default. The length of a frame is not bounded here, but by
// whoever reads it; the memory that Parse takes beyond the frame is at most some 50 bytes for each member of an object
// that is open at the same time.
type Limits struct {
	// MaxDepth is how deep objects and arrays may nest; the message itself is depth 1. 0 means 512; more than 10,000
	// counts as 10,000, because the scan is recursive.
	MaxDepth int
	// MaxID is the length of the longest id, in bytes as written (quotes included). 0 means 1024.
	MaxID int
	// LoneSurrogates accepts an escape of half a surrogate pair ("\ud83d"), which the grammar of JSON allows and which
	// JavaScript programs write when they cut a text inside an emoji. It is passed through as written; where a text is
	// decoded it becomes U+FFFD. Off, such a frame is ErrUTF8.
	LoneSurrogates bool
}

// Validate reports every value out of range as `field: problem (got value)`.
func (l Limits) Validate() error {
	var errs []error
	if l.MaxDepth < 0 || l.MaxDepth > MaxMaxDepth {
		errs = append(errs, fmt.Errorf("MaxDepth: must be 0 to %d (got %d)", MaxMaxDepth, l.MaxDepth))
	}
	if l.MaxID < 0 {
		errs = append(errs, fmt.Errorf("MaxID: must not be negative (got %d)", l.MaxID))
	}
	return errors.Join(errs...)
}

func (l Limits) maxDepth() int {
	if l.MaxDepth <= 0 {
		return DefaultMaxDepth
	}
	return min(l.MaxDepth, MaxMaxDepth)
}

func (l Limits) maxID() int {
	if l.MaxID <= 0 {
		return DefaultMaxID
	}
	return l.MaxID
}
