package storetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/journal"
)

// BenchmarkAppend measures appends of 200 B events to the journals of 200 sessions at once, until they are committed:
// in one call of Append for all sessions, as a gateway that collects for some milliseconds makes it, and in one call
// for each session, all at the same time. It reports events per second and checks that they are all there.
func BenchmarkAppend(b *testing.B, open func(t testing.TB) sessions.Store) {
	const sessionCount = 200
	payload := bytes.Repeat([]byte("0123456789"), 20)
	for _, perRun := range []int{1, 5, 15, 50} {
		for _, together := range []bool{true, false} {
			name := fmt.Sprintf("run=%d/calls=%d", perRun, sessionCount)
			if together {
				name = fmt.Sprintf("run=%d/calls=1", perRun)
			}
			b.Run(name, func(b *testing.B) {
				s := open(b)
				defer func() { must(b, s.Close()) }()
				runs := make([]sessions.Run, sessionCount)
				for i := range runs {
					runs[i] = sessions.Run{Principal: "alice", Journal: fmt.Sprint("session-", i), Fence: 1, Events: make([]journal.Event, perRun)}
					openJournal(b, s, runs[i].Journal, 1, 1)
					for k := range runs[i].Events {
						runs[i].Events[k] = journal.Event{Seq: uint64(k + 1), Time: 1_700_000_000_000, Type: journal.Update, Data: payload}
					}
				}
				rounds := uint64(0)
				for b.Loop() {
					if together {
						for _, err := range s.Append(b.Context(), runs) {
							must(b, err)
						}
					} else {
						goes(sessionCount, func(i int) {
							if err := s.Append(b.Context(), runs[i:i+1])[0]; err != nil {
								b.Error(err)
							}
						})
					}
					rounds++
					for i := range runs {
						for k := range runs[i].Events {
							runs[i].Events[k].Seq += uint64(perRun)
						}
					}
				}
				events := float64(rounds) * sessionCount * float64(perRun)
				b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
				for i := range runs {
					if got := info(b, s, runs[i].Journal); got.Events != int64(rounds)*int64(perRun) {
						b.Fatalf("%s has %d events of %d", runs[i].Journal, got.Events, rounds*uint64(perRun))
					}
				}
			})
		}
	}
}
