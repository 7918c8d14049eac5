package journal

import "sync/atomic"

// Budget bounds the bytes that all journals of one gateway hold together. When it is used up, a journal that appends
// gives up its own older half, down to a floor of 1 MiB, before it takes more.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget returns a budget of max bytes; 0 is the default of 2 GiB.
func NewBudget(max int64) *Budget {
	if max <= 0 {
		max = 2 << 30
	}
	return &Budget{max: max}
}

// Used returns the bytes that all journals hold now.
func (b *Budget) Used() int64 { return b.used.Load() }

const budgetFloor = 1 << 20
