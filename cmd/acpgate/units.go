package main

import (
	"strconv"

	"github.com/acpgate/acpgate/agentpool"
)

// byteSize is a number of bytes that flags spell with a binary unit: 64KiB, 32MiB, 1GiB, or a plain number.
type byteSize int64

const (
	kib byteSize = 1 << 10
	mib byteSize = 1 << 20
	gib byteSize = 1 << 30
)

// UnmarshalText reads what String writes.
func (b *byteSize) UnmarshalText(text []byte) error {
	n, err := agentpool.ParseSize(string(text))
	if err != nil {
		return err
	}
	*b = byteSize(n)
	return nil
}

func (b byteSize) String() string {
	switch {
	case b >= gib && b%gib == 0:
		return strconv.FormatInt(int64(b/gib), 10) + "GiB"
	case b >= mib && b%mib == 0:
		return strconv.FormatInt(int64(b/mib), 10) + "MiB"
	case b >= kib && b%kib == 0:
		return strconv.FormatInt(int64(b/kib), 10) + "KiB"
	}
	return strconv.FormatInt(int64(b), 10)
}
