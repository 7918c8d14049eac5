package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// figure is one line of the table.
type figure struct {
	row    string
	what   string // with its unit
	values map[string]float64
	scale  float64 // from seconds or bytes to the unit shown

	reached string // what is compared with the target
	target  string // "" if there is none
	met     bool
}

// show makes a figure of the medians of what the samples say under name.
func show(what, name string, scale float64, samples map[string][]sample) figure {
	f := figure{what: what, values: map[string]float64{}, scale: scale}
	for contender, list := range samples {
		if _, ok := list[0][name]; ok {
			f.values[contender] = median(collect(list, name))
		}
	}
	return f
}

// bound is a target: at least so many times another contender, or at most.
type bound struct {
	of              string // the other contender
	atLeast, atMost float64
}

// against compares a contender with another, round by round: the median of the ratios is what counts, because a round's
// runs follow each other and share the machine's mood.
func (f figure) against(who, name string, b bound, samples map[string][]sample) figure {
	ours, theirs := collect(samples[who], name), collect(samples[b.of], name)
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = ours[i] / theirs[i]
	}
	r := median(ratios)
	f.reached = fmt.Sprintf("%s: %.2f x (%.2f to %.2f)", who, r, slices.Min(ratios), slices.Max(ratios))
	if b.atLeast > 0 {
		f.target, f.met = fmt.Sprintf("at least %g x %s", b.atLeast, b.of), r >= b.atLeast
	} else {
		f.target, f.met = fmt.Sprintf("at most %g x %s", b.atMost, b.of), r <= b.atMost
	}
	return f
}

// atMost compares a contender with a limit, in the unit shown.
func (f figure) atMost(who string, limit float64, unit string) figure {
	v := f.values[who] * f.scale
	f.reached, f.target = who+": "+number(v)+" "+unit, fmt.Sprintf("at most %g %s", limit, unit)
	f.met = v <= limit
	return f
}

func collect(list []sample, name string) []float64 {
	out := make([]float64, len(list))
	for i, x := range list {
		out[i] = x[name]
	}
	return out
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if n == 0 {
		return math.NaN()
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// number writes x with three digits that count.
func number(x float64) string {
	digits := 0
	for limit := 100.0; digits < 3 && math.Abs(x) < limit && x != 0; limit /= 10 {
		digits++
	}
	return strconv.FormatFloat(x, 'f', digits, 64)
}

// printTable writes the figures as a Markdown table.
func printTable(w io.Writer, figures []figure) {
	contenders := []string{direct, naive, corked, memory, product}
	cells := [][]string{append(append([]string{"row", "figure"}, contenders...), "reached", "target", "")}
	for _, f := range figures {
		line := []string{f.row, f.what}
		for _, c := range contenders {
			cell := ""
			if v, ok := f.values[c]; ok {
				cell = number(v * f.scale)
			}
			line = append(line, cell)
		}
		verdict := ""
		if f.target != "" {
			verdict = "missed"
			if f.met {
				verdict = "met"
			}
		}
		cells = append(cells, append(line, f.reached, f.target, verdict))
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], len(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, width := range widths {
		rule[i] = strings.Repeat("-", max(width, 3))
	}
	for _, line := range slices.Insert(cells, 1, rule) {
		for i, cell := range line {
			fmt.Fprintf(w, "| %-*s ", max(widths[i], 3), cell)
		}
		fmt.Fprintln(w, "|")
	}
}
