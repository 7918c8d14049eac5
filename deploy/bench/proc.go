package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// What Linux says about a process. Other systems have no /proc, and the benchmark does not run there.

// clockTick is the unit of times in /proc/PID/stat: 1/100 s on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf is the processor time that a process has taken, all its threads together.
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The fields behind the name, which may hold blanks and is in brackets; utime and stime are fields 14 and 15.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const utime, stime = 14 - 3, 15 - 3
	if len(fields) <= stime {
		return 0, fmt.Errorf("/proc/%d/stat: %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[utime], 10, 64)
	system, err2 := strconv.ParseInt(fields[stime], 10, 64)
	return time.Duration(user+system) * clockTick, errors.Join(err, err2)
}

// memoryOf returns a value of /proc/PID/status in bytes: VmRSS for what a process has in memory, VmHWM for the most that
// it ever had.
func memoryOf(pid int, field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/%d/status: no %s", pid, field)
}

// machine describes where the figures come from.
func machine() string {
	model := "unknown processor"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	kernel := "unknown kernel"
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		kernel = "Linux " + strings.TrimSpace(string(text))
	}
	return model + ", " + kernel
}
