package storetest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/acpgate/acpgate/sessions"
)

func setRows(t testing.TB, s sessions.Store, index string, rows ...sessions.IndexRow) {
	t.Helper()
	var c sessions.Commit
	for _, r := range rows {
		c.Indexes = append(c.Indexes, sessions.IndexWrite{Index: index, Member: r.Member, Score: r.Score, Value: r.Value})
	}
	must(t, s.Commit(t.Context(), "alice", c))
}

func scan(t testing.TB, s sessions.Store, index string, q sessions.Query) []sessions.IndexRow {
	t.Helper()
	rows, err := s.Scan(t.Context(), "alice", index, q)
	must(t, err)
	return rows
}

// pages reads an index page by page, calling between after each.
func pages(t testing.TB, s sessions.Store, index string, q sessions.Query, between func()) (out []sessions.IndexRow) {
	t.Helper()
	for {
		rows := scan(t, s, index, q)
		out = append(out, rows...)
		if len(rows) < q.Rows() {
			return out
		}
		q.After = &sessions.IndexRow{Member: rows[len(rows)-1].Member, Score: rows[len(rows)-1].Score}
		between()
	}
}

func members(rows []sessions.IndexRow) string {
	var names []string
	for _, r := range rows {
		names = append(names, r.Member)
	}
	return strings.Join(names, " ")
}

func testIndexOrder(t *testing.T, b Backend) {
	s := open(t, b)
	if rows := scan(t, s, "none", sessions.Query{}); len(rows) != 0 {
		t.Errorf("an index that does not exist has rows %v", rows)
	}
	setRows(t, s, "i",
		sessions.IndexRow{Member: "b", Score: 5, Value: []byte("B")}, sessions.IndexRow{Member: "a", Score: 5}, sessions.IndexRow{Member: "c", Score: 5},
		sessions.IndexRow{Member: "low", Score: math.MinInt64}, sessions.IndexRow{Member: "high", Score: math.MaxInt64}, sessions.IndexRow{Member: "next", Score: math.MaxInt64 - 1},
		sessions.IndexRow{Member: "zero", Score: 0}, sessions.IndexRow{Member: "minus", Score: -1}, sessions.IndexRow{Member: "big", Score: 1<<53 + 1}, sessions.IndexRow{Member: "bigger", Score: 1<<53 + 2})
	setRows(t, s, "other", sessions.IndexRow{Member: "x", Score: 7})
	const order = "high next bigger big a b c zero minus low"
	for limit := range 12 {
		if got := members(pages(t, s, "i", sessions.Query{Limit: limit}, func() {})); got != order {
			t.Errorf("pages of %d: %s, want %s", limit, got, order)
		}
		up := pages(t, s, "i", sessions.Query{Limit: limit, Ascending: true}, func() {})
		slices.Reverse(up)
		if got := members(up); got != order {
			t.Errorf("ascending pages of %d, turned round: %s, want %s", limit, got, order)
		}
	}
	if rows := scan(t, s, "i", sessions.Query{}); string(rows[5].Value) != "B" || rows[5].Score != 5 || rows[9].Score != math.MinInt64 {
		t.Errorf("rows %v", rows)
	}
	// A place that does not exist is a place.
	if got := members(scan(t, s, "i", sessions.Query{After: &sessions.IndexRow{Member: "bb", Score: 5}, Limit: 2})); got != "c zero" {
		t.Errorf("after (5, bb): %s", got)
	}
	if got := members(scan(t, s, "i", sessions.Query{After: &sessions.IndexRow{Member: "bb", Score: 5}, Limit: 2, Ascending: true})); got != "b a" {
		t.Errorf("before (5, bb): %s", got)
	}
	// A member has one score, and its last value.
	setRows(t, s, "i", sessions.IndexRow{Member: "c", Score: 6, Value: []byte("C")}, sessions.IndexRow{Member: "b", Score: 5, Value: []byte("BB")})
	if rows := scan(t, s, "i", sessions.Query{After: &sessions.IndexRow{Member: "big", Score: 1<<53 + 1}, Limit: 3}); members(rows) != "c a b" || string(rows[0].Value) != "C" || string(rows[2].Value) != "BB" {
		t.Errorf("after a change: %v", rows)
	}
	must(t, s.Commit(t.Context(), "alice", sessions.Commit{Indexes: []sessions.IndexWrite{
		{Index: "i", Member: "a", Remove: true}, {Index: "i", Member: "never", Remove: true}, {Index: "i", Member: "x", Score: 1}, {Index: "i", Member: "x", Score: 2},
	}}))
	if got := members(scan(t, s, "i", sessions.Query{})); got != "high next bigger big c b x zero minus low" {
		t.Errorf("after a removal: %s", got)
	}
}

// Rows that do not change are seen exactly once, in order, whatever happens to others between the pages.
func testPagesUnderChange(t *testing.T, b Backend) {
	s := open(t, b)
	rnd := rand.New(rand.NewPCG(7, 7))
	var still, rows []sessions.IndexRow
	for i := range 250 {
		r := sessions.IndexRow{Member: fmt.Sprintf("still-%03d", i), Score: rnd.Int64N(20)}
		still = append(still, r)
		rows = append(rows, r, sessions.IndexRow{Member: fmt.Sprintf("moving-%03d", i), Score: rnd.Int64N(20)})
	}
	setRows(t, s, "i", rows...)
	slices.SortFunc(still, func(a, b sessions.IndexRow) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Member, b.Member))
	})
	for _, ascending := range []bool{false, true} {
		want := slices.Clone(still)
		if ascending {
			slices.Reverse(want)
		}
		got := pages(t, s, "i", sessions.Query{Limit: 7, Ascending: ascending}, func() {
			var c sessions.Commit
			for range 20 {
				c.Indexes = append(c.Indexes, sessions.IndexWrite{
					Index: "i", Member: fmt.Sprintf("moving-%03d", rnd.IntN(250)), Score: rnd.Int64N(20), Remove: rnd.IntN(3) == 0,
				})
			}
			must(t, s.Commit(t.Context(), "alice", c))
		})
		got = slices.DeleteFunc(got, func(r sessions.IndexRow) bool { return strings.HasPrefix(r.Member, "moving") })
		if members(got) != members(want) {
			t.Errorf("ascending %v:\n got %s\nwant %s", ascending, members(got), members(want))
		}
	}
	many := make([]sessions.IndexRow, sessions.MaxScanRows)
	for i := range many {
		many[i].Member = fmt.Sprint("many-", i)
	}
	setRows(t, s, "i", many...)
	for limit, want := range map[int]int{0: sessions.DefaultScanRows, -1: sessions.DefaultScanRows, 3: 3, 1 << 30: sessions.MaxScanRows} {
		if n := len(scan(t, s, "i", sessions.Query{Limit: limit})); n != want {
			t.Errorf("limit %d gives %d rows, want %d", limit, n, want)
		}
	}
}
