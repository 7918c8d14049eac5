package storetest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestN1_MemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		return storetest.Backend{Open: func(testing.TB) sessions.Store { return storetest.NewMemory() }, Forgets: true}
	})
}

func TestMemory_RunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := storetest.NewMemory()
		changes, err := s.Watch(t.Context(), "alice")
		if err != nil {
			t.Fatal(err)
		}
		write := sessions.Commit{Writes: []sessions.Write{{Key: "x", TTL: time.Hour}}}
		if err := s.Commit(t.Context(), "alice", write); err != nil {
			t.Fatal(err)
		}
		if c := <-changes; c.Key != "x" {
			t.Errorf("told %+v", c)
		}
		for _, there := range []bool{true, false} {
			time.Sleep(time.Hour - time.Second)
			records, err := s.Read(t.Context(), "alice", "x")
			if err != nil || (records[0].Version > 0) != there {
				t.Errorf("%+v, %v, want there: %v", records, err, there)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
