package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

var errForced = errors.New("a second signal came")

// stopping turns signals into two steps: the first asks the gateway to end its turns and stop, the second to stop at once.
type stopping struct {
	asked  context.Context // ends with the first signal
	forced context.Context // ends with the second, with cause errForced
	finish context.CancelFunc
	wg     sync.WaitGroup
}

// newStopping begins to listen for SIGINT, SIGTERM and SIGHUP. The end of ctx counts as the first signal. It must be ended.
func newStopping(ctx context.Context, log *slog.Logger) *stopping {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) { // as under nohup
		signal.Notify(signals, syscall.SIGHUP)
	}
	finished, finish := context.WithCancel(context.Background())
	asked, ask := context.WithCancel(context.Background())
	forced, force := context.WithCancelCause(context.Background())
	s := &stopping{asked: asked, forced: forced, finish: finish}
	s.wg.Go(func() {
		defer signal.Stop(signals)
		defer force(nil)
		defer ask()
		parent := ctx.Done()
		for {
			select {
			case <-finished.Done():
				return
			case <-parent:
				parent = nil
				ask()
			case sig := <-signals:
				log.Info("signal received", "signal", sig.String())
				if asked.Err() != nil {
					force(errForced)
				}
				ask()
			}
		}
	})
	return s
}

// end stops listening for signals.
func (s *stopping) end() {
	s.finish()
	s.wg.Wait()
}

// within runs f with a context that ends after d, or with the second signal.
func (s *stopping) within(d time.Duration, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(s.forced, d)
	defer cancel()
	return f(ctx)
}
