package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// errMissed says that a target was missed, which is a failure with --strict only.
var errMissed = errors.New("a target was missed")

// suite is one run of the benchmark.
type suite struct {
	options
	self   string              // path of this program
	dir    string              // for everything that is written
	agents map[string][]string // command lines by name
	stderr io.Writer

	row  string // that runs now
	runs int    // servers started
}

// row is one part of the benchmark.
type row struct {
	name string
	run  func(*suite, context.Context) ([]figure, error)
}

func rows() []row {
	return []row{
		{"line", streamRow("line200", "agent writes line by line", 1_000_000, smallUpdate, 1.8)},
		{"block", streamRow("block200", "agent writes in blocks of 64 KiB", 1_000_000, smallUpdate, 2.2)},
		{"line4k", streamRow("line4k", "4 KiB updates, line by line", 200_000, largeUpdate, 1.6)},
		{"block4k", streamRow("block4k", "4 KiB updates, in blocks", 200_000, largeUpdate, 1.6)},
		{"clients50", clientsRow(50, 1.5)},
		{"clients500", clientsRow(500, 2.5)},
		{"paced", (*suite).pacedRow},
		{"beside", (*suite).besideRow},
		{"roundtrip", (*suite).roundTripRow},
		{"connect", (*suite).connectRow},
		{"memory", (*suite).memoryRow},
		{"replay", (*suite).replayRow},
		{"big", (*suite).bigRow},
		{"deaf", (*suite).deafRow},
	}
}

func rowNames() (names []string) {
	for _, r := range rows() {
		names = append(names, r.name)
	}
	return names
}

func runSuite(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	if runtime.GOOS != "linux" {
		return errors.New("the benchmark reads /proc and runs on Linux only")
	}
	s := &suite{options: o, stderr: stderr}
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	for _, path := range []*string{&s.acpgate, &s.profile} {
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return err
			}
		}
	}
	if s.profile != "" {
		if err := os.MkdirAll(s.profile, 0o755); err != nil {
			return err
		}
	}
	if s.dir, err = os.MkdirTemp("", "acpgate-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if s.agents, err = writeScripts(s.dir, s.acpgate); err != nil {
		return err
	}
	chosen, err := chooseRows(o.only)
	if err != nil {
		return err
	}

	began := time.Now()
	var table []figure
	for _, r := range chosen {
		s.row = r.name
		at := time.Now()
		figures, err := r.run(s, ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		fmt.Fprintf(stderr, "%s: %.0f s\n", r.name, time.Since(at).Seconds())
		for i := range figures {
			figures[i].row = r.name
		}
		table = append(table, figures...)
	}
	fmt.Fprintf(stdout, "%s, %d processors, %s, %d rounds, %.0f s\n\n", machine(), runtime.NumCPU(), runtime.Version(), s.rounds, time.Since(began).Seconds())
	if s.quick {
		fmt.Fprint(stdout, "A smoke test: the figures mean nothing.\n\n")
	}
	printTable(stdout, table)
	if s.strict && slices.ContainsFunc(table, func(f figure) bool { return f.target != "" && !f.met }) {
		return errMissed
	}
	return nil
}

func chooseRows(only string) ([]row, error) {
	all := rows()
	if only == "" {
		return all, nil
	}
	var chosen []row
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--only: there is no row %q; the rows are %s", name, strings.Join(rowNames(), ", "))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// scaled is n, or less of it in a smoke test.
func (s *suite) scaled(n, smoke int) int {
	if s.quick {
		return smoke
	}
	return n
}

// sample is what one run of one contender has shown, by the name of the figure.
type sample map[string]float64

// compare runs the contenders in turn, in another order each round, and returns their samples.
func (s *suite) compare(ctx context.Context, contenders []string, once func(ctx context.Context, contender string) (sample, error)) (map[string][]sample, error) {
	all := map[string][]sample{}
	for round := range s.rounds {
		for i := range contenders {
			name := contenders[(i+round)%len(contenders)]
			got, err := once(ctx, name)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", name, round+1, err)
			}
			fmt.Fprintf(s.stderr, "  %s %d/%d %s:%s\n", s.row, round+1, s.rounds, name, got)
			all[name] = append(all[name], got)
		}
	}
	return all, nil
}

func (x sample) String() string {
	var b strings.Builder
	names := make([]string, 0, len(x))
	for name := range x {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, " %s %s", name, number(x[name]))
	}
	return b.String()
}

// once runs one job against one contender. extra may add to the sample while the connections are still open.
func (s *suite) once(ctx context.Context, contender, agent string, j job, extra func(*server, sample) error) (_ sample, _ outcome, err error) {
	var v *server
	if contender == direct {
		j.Argv = s.agents[agent]
	} else {
		if v, err = s.serve(ctx, contender, agent); err != nil {
			return nil, outcome{}, err
		}
		defer func() {
			stopped := errors.Join(v.complaint(), v.stop())
			if err != nil {
				err = fmt.Errorf("%w; the server's log ends: %s", err, tail(v.log.Name()))
			}
			err = errors.Join(err, stopped)
		}()
	}
	c, err := s.visit(ctx, v, j)
	if err != nil {
		return nil, outcome{}, err
	}
	defer func() { err = errors.Join(err, c.leave()) }()
	var before, after time.Duration
	if v != nil {
		if before, err = cpuOf(v.cmd.Process.Pid); err != nil {
			return nil, outcome{}, err
		}
	}
	o, err := c.measure()
	if err != nil {
		return nil, o, err
	}
	got := sample{"elapsed": o.Elapsed.Seconds(), "client": o.CPU.Seconds(), "p50": o.P50.Seconds(), "p99": o.P99.Seconds()}
	if v != nil {
		if after, err = cpuOf(v.cmd.Process.Pid); err != nil {
			return nil, o, err
		}
		got["server"] = (after - before).Seconds()
		if extra != nil {
			err = extra(v, got)
		}
	}
	return got, o, err
}

func tail(path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return text[max(0, len(text)-1000):]
}
