package journal_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acpgate/acpgate/sessions/journal"
)

// filled is a journal with n MiB that its one reader, at the beginning, has not read.
func filled(t *testing.T, maxMiB, n int) (*journal.Journal, *journal.Reader) {
	t.Helper()
	j := journal.New(1, journal.Limits{MaxBytes: int64(maxMiB) << 20}, nil)
	r := reader(t, j, journal.Cursor{Epoch: 1})
	for range n << 20 / len(block) {
		j.Append(journal.Update, now, block)
	}
	return j, r
}

var block = make([]byte, 64<<10)

// waited is how long n calls of Throttle take.
func waited(j *journal.Journal, n int) time.Duration {
	before := time.Now()
	for range n {
		j.Throttle()
	}
	return time.Since(before)
}

// read reads n blocks, one every pause.
func read(t *testing.T, r *journal.Reader, n int, pause time.Duration) {
	for range n {
		c, ok, err := r.Next()
		if err != nil || !ok {
			t.Errorf("nothing to read: %v", err)
			return
		}
		r.Advance(c.At(0))
		time.Sleep(pause)
	}
}

func TestW6_ThrottleWaitsForAReaderAtLineSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := filled(t, 64, 8)
		go read(t, r, 128, time.Millisecond) // 64 MB/s; there are 128 blocks
		if d := waited(j, 4); d < 100*time.Millisecond || d > 120*time.Millisecond {
			t.Errorf("waited %v; half of the window is reached after 120 blocks", d)
		}
		time.Sleep(time.Second)
		if d := waited(j, 1); d != 0 {
			t.Errorf("waited %v for a reader that is up to date", d)
		}
	})
}

func TestW6_ThrottleDoesNotWaitForASlowReader(t *testing.T) {
	for name, pause := range map[string]time.Duration{"deaf": time.Hour, "1 MB/s": 64 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, r := filled(t, 64, 8)
				done := make(chan struct{})
				go func() {
					defer close(done)
					read(t, r, 10, pause)
				}()
				var all time.Duration
				for range 10 {
					all += waited(j, 20)
					time.Sleep(50 * time.Millisecond)
				}
				if all > 30*time.Millisecond { // in half a second
					t.Errorf("waited %v in all", all)
				}
				<-done
			})
		})
	}
}

// A reader that is about to be lost, and read until a moment ago, may only have missed the processor.
func TestW6_ThrottleIsPatientBeforeAReaderIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := filled(t, 64, 40)
		read(t, r, 64, time.Millisecond) // 64 MB/s: it has earned patience
		if d := waited(j, 4); d < 150*time.Millisecond {
			t.Errorf("waited only %v for a reader that stopped a moment ago", d)
		}
		if d := waited(j, 100); d > 200*time.Millisecond {
			t.Errorf("waited %v more for a reader that is gone", d)
		}
	})
}

func TestW6_ThrottleWakesTheReaderThatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New(1, journal.Limits{}, nil)
		wake := make(chan struct{}, 1)
		r, err := j.NewReader(journal.Cursor{Epoch: 1}, func() { wake <- struct{}{} }, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Arm() {
			t.Fatal("not armed")
		}
		for range 32 {
			j.Add(journal.Update, now, block)
		}
		select {
		case <-wake:
			t.Fatal("Add woke a reader")
		default:
		}
		go func() {
			<-wake
			read(t, r, 32, 0)
		}()
		if d := waited(j, 1); d >= 4*time.Millisecond {
			t.Errorf("waited %v for a reader that reads at once", d)
		}
	})
}

func TestThrottleWaitsForTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := journal.New(1, journal.Limits{MaxBytes: 4 << 20}, nil)
		j.Persist(func(bool) {})
		for range 40 {
			j.Append(journal.Update, now, block)
		}
		go func() {
			time.Sleep(30 * time.Millisecond)
			j.Stored(20)
		}()
		if d := waited(j, 1); d != 30*time.Millisecond {
			t.Errorf("waited %v for the store, which took 30ms", d)
		}
		for range 20 {
			j.Append(journal.Update, now, block)
		}
		if d := waited(j, 1); d < 40*time.Millisecond || d > 60*time.Millisecond {
			t.Errorf("waited %v for a store that hangs", d)
		}
		j.Failed(errors.New("no disk"))
		if d := waited(j, 10); d != 0 {
			t.Errorf("waited %v for a store that fails", d)
		}
		j.Stored(21)
		if d := waited(j, 1); d == 0 {
			t.Error("did not wait for a store that works again")
		}
	})
}
