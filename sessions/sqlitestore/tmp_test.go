package sqlitestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

func TestTmp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "acpgate.db")
	s := openAt(t, path)
	ctx := t.Context()
	payload := make([]byte, 200)
	var lat []time.Duration
	for j := range 20 {
		s.OpenJournal(ctx, "a", fmt.Sprint(j), 1, 1)
	}
	next := uint64(1)
	t0 := time.Now()
	for range 10000 { // 20 journals x 20 000 events... 2 events each run
		var runs []sessions.Run
		for j := range 20 {
			runs = append(runs, sessions.Run{Principal: "a", Journal: fmt.Sprint(j), Fence: 1, Events: []journal.Event{{Seq: next, Data: payload}, {Seq: next + 1, Data: payload}}})
		}
		next += 2
		t1 := time.Now()
		for _, err := range s.Append(ctx, runs) {
			if err != nil {
				t.Fatal(err)
			}
		}
		lat = append(lat, time.Since(t1))
	}
	slices.Sort(lat)
	fmt.Println("append 400k events in 200k runs", time.Since(t0), "p50", lat[len(lat)/2], "p99", lat[len(lat)*99/100], "max", lat[len(lat)-1])
	for i := range 5000 {
		s.Commit(ctx, "a", sessions.Commit{Writes: []sessions.Write{{Key: fmt.Sprint("session-", i), Value: make([]byte, 1500)}}, Indexes: []sessions.IndexWrite{{Index: "i", Member: fmt.Sprint("session-", i), Score: int64(i), Value: make([]byte, 300)}}})
	}
	st, _ := os.Stat(path)
	fmt.Println("file", st.Size()>>20, "MiB")
	t0 = time.Now()
	n := 0
	for after := uint64(0); ; {
		ev, _ := s.ReadJournal(ctx, "a", "3", after, 1<<20)
		if len(ev) == 0 {
			break
		}
		n += len(ev)
		after = ev[len(ev)-1].Seq
	}
	fmt.Println("read", n, "events", time.Since(t0))
	t0 = time.Now()
	s.ReadJournal(ctx, "a", "3", 19000, 1<<20)
	fmt.Println("read last 1000 events", time.Since(t0))
	t0 = time.Now()
	s.JournalInfo(ctx, "a", "3")
	fmt.Println("info", time.Since(t0))
	t0 = time.Now()
	s.Compact(ctx, "a", "5", 1, 19000, nil)
	fmt.Println("trim 9500 segments", time.Since(t0))
	t0 = time.Now()
	s.DeleteJournal(ctx, "a", "4")
	fmt.Println("delete 10000 segments", time.Since(t0))
	t0 = time.Now()
	s.Scan(ctx, "a", "i", sessions.Query{Limit: 1000})
	fmt.Println("scan 1000", time.Since(t0))
	t0 = time.Now()
	for i := range 1000 {
		s.Read(ctx, "a", fmt.Sprint("session-", i))
	}
	fmt.Println("1000 reads", time.Since(t0))
	t0 = time.Now()
	s.Close()
	fmt.Println("close", time.Since(t0))
	t0 = time.Now()
	s = openAt(t, path)
	fmt.Println("open", time.Since(t0))
	// one big journal
	s.OpenJournal(ctx, "a", "big", 1, 1)
	for i := range 64 {
		var r = sessions.Run{Principal: "a", Journal: "big", Fence: 1}
		for k := range 3125 {
			r.Events = append(r.Events, journal.Event{Seq: uint64(i*3125 + k + 1), Data: payload})
		}
		if err := s.Append(ctx, []sessions.Run{r})[0]; err != nil {
			t.Fatal(err)
		}
	}
	t0 = time.Now()
	s.DeleteJournal(ctx, "a", "big")
	fmt.Println("delete 40 MB journal", time.Since(t0))
	s.Close()
}
