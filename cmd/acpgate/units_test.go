package main

import "testing"

func TestByteSize(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want byteSize
		out  string
	}{
		{"0", 0, "0"},
		{"1023", 1023, "1023"},
		{"1024", kib, "1KiB"},
		{"64KiB", 64 * kib, "64KiB"},
		{"1024KiB", mib, "1MiB"},
		{"32 MiB", 32 * mib, "32MiB"},
		{"2GiB", 2 * gib, "2GiB"},
		{"1025", 1025, "1025"},
	} {
		var b byteSize
		if err := b.UnmarshalText([]byte(tc.in)); err != nil || b != tc.want {
			t.Errorf("UnmarshalText(%q) = %d, %v; want %d", tc.in, b, err, tc.want)
		}
		if got := b.String(); got != tc.out {
			t.Errorf("byteSize(%d).String() = %q, want %q", b, got, tc.out)
		}
	}
	b := 7 * kib
	if err := b.UnmarshalText([]byte("32MB")); err == nil || b != 7*kib {
		t.Errorf("32MB gives %v, %v", b, err)
	}
}
