package main

import (
	"context"
	"fmt"
	"syscall"
	"time"
)

// Scales from seconds and bytes.
const (
	plain  = 1
	micros = 1e6
	millis = 1e3
	kib    = 1.0 / (1 << 10)
	mib    = 1.0 / (1 << 20)
)

const cpuTarget = 5 // microseconds of the gateway for an update of 200 B

// streamed turns the times of a run into those of one update.
func streamed(x sample, o outcome, want, size int) error {
	if o.Updates != want || o.Bytes != int64(want)*int64(size) {
		return fmt.Errorf("%d updates with %d bytes came, not %d of %d bytes each", o.Updates, o.Bytes, want, size)
	}
	n := float64(o.Updates)
	x["rate"] = n / x["elapsed"]
	x["client"] /= n
	if _, ok := x["server"]; ok {
		x["server"] /= n
	}
	return nil
}

// everybody is who streams to one client.
func everybody() []string { return []string{direct, naive, corked, memory, product} }

// streamRow is one client that reads as fast as it can. The answer to its prompt comes when everything is stored, so the
// clock of acpgate stops behind the last commit.
func streamRow(agent, what string, count, size int, factor float64) func(*suite, context.Context) ([]figure, error) {
	return func(s *suite, ctx context.Context) ([]figure, error) {
		n := s.scaled(count, count/100)
		samples, err := s.compare(ctx, everybody(), func(ctx context.Context, contender string) (sample, error) {
			x, o, err := s.once(ctx, contender, agent, job{Load: "stream", Conns: 1, Count: n, Size: size}, nil)
			if err != nil {
				return nil, err
			}
			return x, streamed(x, o, n, size)
		})
		if err != nil {
			return nil, err
		}
		figures := []figure{show("updates/s, "+what, "rate", plain, samples).against(memory, "rate", bound{of: naive, atLeast: factor}, samples)}
		cpu := show("server time for an update, us", "server", micros, samples)
		if size == smallUpdate {
			stored := map[string][]sample{naive: samples[naive], product: samples[product]}
			figures = append(figures, show("updates/s, stored", "rate", plain, stored).against(product, "rate", bound{of: naive, atLeast: 1}, samples))
			cpu = cpu.atMost(memory, cpuTarget, "us")
		}
		return append(figures, cpu, show("client time for an update, us", "client", micros, samples)), nil
	}
}

// clientsRow is many clients at once, each with a session of its own; a million updates in all.
func clientsRow(conns int, factor float64) func(*suite, context.Context) ([]figure, error) {
	return func(s *suite, ctx context.Context) ([]figure, error) {
		conns := s.scaled(conns, conns/10)
		n := s.scaled(1_000_000, 10_000) / conns
		samples, err := s.compare(ctx, []string{naive, corked, memory, product}, func(ctx context.Context, contender string) (sample, error) {
			x, o, err := s.once(ctx, contender, "line200", job{Load: "stream", Conns: conns, Workers: 16, Count: n, Size: smallUpdate}, nil)
			if err != nil {
				return nil, err
			}
			return x, streamed(x, o, n*conns, smallUpdate)
		})
		if err != nil {
			return nil, err
		}
		return []figure{
			show(fmt.Sprintf("updates/s, %d clients and sessions", conns), "rate", plain, samples).against(memory, "rate", bound{of: naive, atLeast: factor}, samples),
			show("server time for an update, us", "server", micros, samples),
		}, nil
	}
}

// pacedRow is many sessions that stream as people read.
func (s *suite) pacedRow(ctx context.Context) ([]figure, error) {
	const limit = 20 // ms
	conns, seconds := s.scaled(500, 50), s.scaled(6, 1)
	n := seconds * int(time.Second/paceInterval)
	samples, err := s.compare(ctx, []string{naive, memory, product}, func(ctx context.Context, contender string) (sample, error) {
		x, o, err := s.once(ctx, contender, "paced", job{Load: "paced", Conns: conns, Workers: 16, Count: n}, nil)
		if err != nil {
			return nil, err
		}
		return x, streamed(x, o, n*conns, smallUpdate)
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		show(fmt.Sprintf("p99 of an update, %d sessions at 10/s, ms", conns), "p99", millis, samples).atMost(product, limit, "ms"),
		show("p50 of an update, ms", "p50", millis, samples),
		show("server time for an update, us", "server", micros, samples),
	}, nil
}

// besideRow is paced sessions of a process one of whose sessions is written to at 20 MB/s, with a client that reads and
// with one that does not.
func (s *suite) besideRow(ctx context.Context) ([]figure, error) {
	const (
		neighbours = 20
		quiet      = "quiet"
	)
	n := s.scaled(500, 100)
	samples, err := s.compare(ctx, []string{quiet, product}, func(ctx context.Context, which string) (sample, error) {
		x, o, err := s.once(ctx, product, "beside", job{Load: "beside", Conns: neighbours + 1, Count: n, Deaf: which == product}, nil)
		if err != nil {
			return nil, err
		}
		return x, streamed(x, o, n*neighbours, smallUpdate)
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		show("p99 of 20 neighbours of a client that does not read, ms", "p99", millis, samples).against(product, "p99", bound{of: quiet, atMost: 1.5}, samples),
		show("p99 of them when it reads (quiet), ms", "p99", millis, map[string][]sample{product: samples[quiet]}),
	}, nil
}

// roundTripRow is one request after the other.
func (s *suite) roundTripRow(ctx context.Context) ([]figure, error) {
	n := s.scaled(20_000, 500)
	var figures []figure
	for _, r := range []struct{ load, what string }{
		{"echo", "p50 of a tiny request, us"},
		{"prompt", "p50 of a prompt that is answered at once, us"},
	} {
		samples, err := s.compare(ctx, []string{direct, naive, memory, product}, func(ctx context.Context, contender string) (sample, error) {
			x, _, err := s.once(ctx, contender, "echo", job{Load: r.load, Conns: 1, Count: n}, nil)
			return x, err
		})
		if err != nil {
			return nil, err
		}
		p50 := show(r.what, "p50", micros, samples)
		if r.load == "echo" {
			p50 = p50.against(product, "p50", bound{of: naive, atMost: 1.15}, samples)
		}
		figures = append(figures, p50, show("p99 of it, us", "p99", micros, samples))
	}
	return figures, nil
}

// connectRow is clients that come, open a session, and go.
func (s *suite) connectRow(ctx context.Context) ([]figure, error) {
	samples, err := s.compare(ctx, []string{naive, memory, product}, func(ctx context.Context, contender string) (sample, error) {
		n := s.scaled(4000, 100)
		if contender == naive {
			n = s.scaled(400, 20)
		}
		x, o, err := s.once(ctx, contender, "echo", job{Load: "connect", Count: n, Workers: 16}, nil)
		if err != nil {
			return nil, err
		}
		x["rate"] = float64(n) / o.Elapsed.Seconds()
		return x, nil
	})
	if err != nil {
		return nil, err
	}
	return []figure{show("connect + initialize + session/new, a second", "rate", plain, samples).against(product, "rate", bound{of: naive, atLeast: 8}, samples)}, nil
}

// memoryRow is very many connections, each with a session, on which nothing happens.
func (s *suite) memoryRow(ctx context.Context) ([]figure, error) {
	const limit = 20 // KiB
	conns := s.scaled(10_000, 500)
	samples, err := s.compare(ctx, []string{memory, product}, func(ctx context.Context, contender string) (sample, error) {
		return s.idle(ctx, contender, conns)
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		show(fmt.Sprintf("memory of one of %d idle connections with a session, KiB", conns), "memory", kib, samples).atMost(product, limit, "KiB"),
		show("most memory while they came, for each, KiB", "peak", kib, samples),
	}, nil
}

const settle = 5 * time.Second // until the memory of idle connections is looked at

func (s *suite) idle(ctx context.Context, contender string, conns int) (_ sample, err error) {
	v, err := s.serve(ctx, contender, "echo")
	if err != nil {
		return nil, err
	}
	defer func() {
		if stopped := v.stop(); err == nil {
			err = stopped
		}
	}()
	// One connection first, so that what the gateway takes once is not counted.
	first, err := s.visit(ctx, v, job{Load: "idle", Conns: 1})
	if err != nil {
		return nil, err
	}
	defer first.leave()
	pid := v.cmd.Process.Pid
	before, err := memoryOf(pid, "VmRSS")
	if err != nil {
		return nil, err
	}
	many, err := s.visit(ctx, v, job{Load: "idle", Conns: conns, Workers: 16})
	if err != nil {
		return nil, err
	}
	defer many.leave()
	time.Sleep(settle)
	after, err := memoryOf(pid, "VmRSS")
	if err != nil {
		return nil, err
	}
	most, err := memoryOf(pid, "VmHWM")
	if err != nil {
		return nil, err
	}
	if s.profile != "" {
		if err := v.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return nil, err
		}
		time.Sleep(time.Second)
	}
	// They must all still be there.
	if _, err := many.measure(); err != nil {
		return nil, err
	}
	n := float64(conns)
	return sample{"memory": float64(after-before) / n, "peak": float64(most-before) / n}, nil
}

// replayRow is sessions with a history of 10,000 updates, loaded by the agent, and, for comparison, by a client that joins
// a session that is open already.
func (s *suite) replayRow(ctx context.Context) ([]figure, error) {
	n := s.scaled(20, 2)
	loaded, err := s.compare(ctx, []string{direct, naive, memory, product}, func(ctx context.Context, contender string) (sample, error) {
		x, _, err := s.once(ctx, contender, "load", job{Load: "load", Conns: 1, Count: n}, nil)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	joined, err := s.compare(ctx, []string{memory, product}, func(ctx context.Context, contender string) (sample, error) {
		x, _, err := s.once(ctx, contender, "load", job{Load: "joined", Conns: 1, Count: n}, nil)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		show("session/load with 10,000 updates of 200 B, ms", "p50", millis, loaded).against(product, "p50", bound{of: direct, atMost: 2}, loaded),
		show("the same of a session that is open, ms", "p50", millis, joined),
	}, nil
}

// bigRow is a frame of 32 MiB whose text comes back whole.
func (s *suite) bigRow(ctx context.Context) ([]figure, error) {
	size := s.scaled(32<<20, 1<<20)
	samples, err := s.compare(ctx, []string{direct, naive, memory, product}, func(ctx context.Context, contender string) (sample, error) {
		x, _, err := s.once(ctx, contender, "big", job{Load: "big", Conns: 1, Count: s.scaled(3, 1), Size: size}, nil)
		return x, err
	})
	if err != nil {
		return nil, err
	}
	f := show(fmt.Sprintf("a line of %d MiB to the agent and back, ms", size>>20), "p50", millis, samples)
	f.reached, f.target, f.met = "whole", "whole, both ways", true
	return []figure{f}, nil
}

// deafRow is a session flooded as fast as the agent can, whose client does not read at all.
func (s *suite) deafRow(ctx context.Context) ([]figure, error) {
	const limit = 256 // MiB: four times what the journal retains
	n := s.scaled(200_000, 20_000)
	samples, err := s.compare(ctx, []string{memory, product}, func(ctx context.Context, contender string) (sample, error) {
		x, _, err := s.once(ctx, contender, "flood", job{Load: "deaf", Conns: 2, Count: n}, func(v *server, x sample) error {
			most, err := memoryOf(v.cmd.Process.Pid, "VmHWM")
			x["most"] = float64(most)
			return err
		})
		return x, err
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		show(fmt.Sprintf("most memory, %d MiB for a client that does not read, MiB", n*largeUpdate>>20), "most", mib, samples).atMost(product, limit, "MiB"),
	}, nil
}
