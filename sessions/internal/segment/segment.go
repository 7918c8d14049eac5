// Package segment packs runs of journal events into blobs: what a store keeps as one row or one stream entry.
//
// A row or entry per event would cost a store more than the events themselves: at 200 B an event, the row's key, its index
// entry and its statement are most of the work.
//
// Format: a version byte; a CRC-32C of all that follows it, big-endian; the number of events; then for each event the
// distance of its seq from the one before (of the first: from 0), the distance of its time likewise, its type, the length
// of its payload, and the payload. Numbers are varints, those of times are signed.
package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/acpgate/acpgate/sessions/journal"
)

const (
	// MaxBytes bounds the payload of a segment; an event that is larger has one of its own. It is what a reader that wants
	// one event has to load.
	MaxBytes = 64 << 10

	version    = 1
	headerSize = 1 + 4
)

// ErrDamaged says that a blob is not what Pack made.
var ErrDamaged = errors.New("segment: damaged")

// Segment is a packed run of events.
type Segment struct {
	First, Last uint64 // seqs
	Events      int64
	Bytes       int64 // payload
	Data        []byte
}

// Pack packs events, whose seqs ascend, into segments of at most MaxBytes of payload.
func Pack(events []journal.Event) []Segment {
	var out []Segment
	for len(events) > 0 {
		n, bytes := 1, int64(len(events[0].Data))
		for n < len(events) && bytes+int64(len(events[n].Data)) <= MaxBytes {
			bytes += int64(len(events[n].Data))
			n++
		}
		out = append(out, Segment{
			First: events[0].Seq, Last: events[n-1].Seq, Events: int64(n), Bytes: bytes,
			Data: encode(events[:n], bytes),
		})
		events = events[n:]
	}
	return out
}

func encode(events []journal.Event, bytes int64) []byte {
	b := make([]byte, headerSize, headerSize+binary.MaxVarintLen32+int(bytes)+16*len(events))
	b[0] = version
	b = binary.AppendUvarint(b, uint64(len(events)))
	var seq uint64
	var ms int64
	for _, e := range events {
		b = binary.AppendUvarint(b, e.Seq-seq)
		b = binary.AppendVarint(b, e.Time-ms)
		b = append(b, byte(e.Type))
		b = binary.AppendUvarint(b, uint64(len(e.Data)))
		b = append(b, e.Data...)
		seq, ms = e.Seq, e.Time
	}
	binary.BigEndian.PutUint32(b[1:], checksum(b))
	return b
}

func checksum(b []byte) uint32 {
	return crc32.Checksum(b[headerSize:], crc32.MakeTable(crc32.Castagnoli))
}

// AppendTo appends the events of a blob with a seq greater than after to dst. Their payloads alias data. Error:
// ErrDamaged, wrapped.
func AppendTo(dst []journal.Event, data []byte, after uint64) ([]journal.Event, error) {
	if len(data) < headerSize || data[0] != version {
		return dst, fmt.Errorf("%w: not a segment of version %d", ErrDamaged, version)
	}
	if binary.BigEndian.Uint32(data[1:]) != checksum(data) {
		return dst, fmt.Errorf("%w: checksum", ErrDamaged)
	}
	r := reader{b: data[headerSize:]}
	count := r.uvarint()
	var seq uint64
	var ms int64
	for range count {
		seq += r.uvarint()
		ms += r.varint()
		e := journal.Event{Seq: seq, Time: ms, Type: journal.Type(r.byte()), Data: r.bytes(r.uvarint())}
		if r.failed {
			return dst, fmt.Errorf("%w: it ends within an event", ErrDamaged)
		}
		if seq > after {
			dst = append(dst, e)
		}
	}
	if len(r.b) > 0 {
		return dst, fmt.Errorf("%w: %d bytes too many", ErrDamaged, len(r.b))
	}
	return dst, nil
}

type reader struct {
	b      []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.skip(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.skip(n)
	return v
}

func (r *reader) skip(n int) {
	if n <= 0 {
		r.failed, r.b = true, nil
		return
	}
	r.b = r.b[n:]
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.failed = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(min(len(r.b), math.MaxInt32)) {
		r.failed, r.b = true, nil
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}
