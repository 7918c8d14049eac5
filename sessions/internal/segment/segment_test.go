package segment_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/acpgate/acpgate/sessions/internal/segment"
	"github.com/acpgate/acpgate/sessions/journal"
)

func unpack(t testing.TB, segments []segment.Segment, after uint64) []journal.Event {
	t.Helper()
	var out []journal.Event
	for _, s := range segments {
		var err error
		if out, err = segment.AppendTo(out, s.Data, after); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestPack_GivesBackWhatItTook(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var events []journal.Event
		seq := rnd.Uint64N(1 << 62)
		for range rnd.IntN(60) + 1 {
			seq += 1 + rnd.Uint64N(3)
			e := journal.Event{Seq: seq, Time: rnd.Int64() - rnd.Int64(), Type: journal.Type(rnd.IntN(256)), Data: make([]byte, rnd.IntN(5000))}
			if rnd.IntN(20) == 0 {
				e.Data = make([]byte, segment.MaxBytes+1)
			}
			for i := range e.Data {
				e.Data[i] = byte(rnd.Uint32())
			}
			events = append(events, e)
		}
		segments := segment.Pack(events)
		if diff := cmp.Diff(events, unpack(t, segments, 0), cmp.Comparer(bytes.Equal)); diff != "" {
			t.Fatal(diff)
		}
		next := 0
		for _, s := range segments {
			var size int64
			for _, e := range events[next : next+int(s.Events)] {
				size += int64(len(e.Data))
			}
			if s.First != events[next].Seq || s.Last != events[next+int(s.Events)-1].Seq || s.Bytes != size {
				t.Fatalf("segment %d-%d of %d events, %d bytes does not tell what is in it", s.First, s.Last, s.Events, s.Bytes)
			}
			if s.Bytes > segment.MaxBytes && s.Events > 1 {
				t.Fatalf("segment of %d bytes holds %d events", s.Bytes, s.Events)
			}
			next += int(s.Events)
		}
		after := events[len(events)/2].Seq
		if diff := cmp.Diff(append([]journal.Event(nil), events[len(events)/2+1:]...), unpack(t, segments, after), cmp.Comparer(bytes.Equal)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// A flipped bit anywhere is seen.
func TestUnpack_DamageIsSeen(t *testing.T) {
	data := segment.Pack([]journal.Event{{Seq: 1, Time: 5, Type: 1, Data: []byte("hello")}, {Seq: 2, Time: 6, Type: 2, Data: []byte("world")}})[0].Data
	for i := range data {
		for bit := range 8 {
			bad := bytes.Clone(data)
			bad[i] ^= 1 << bit
			if _, err := segment.AppendTo(nil, bad, 0); !errors.Is(err, segment.ErrDamaged) {
				t.Fatalf("bit %d of byte %d: %v", bit, i, err)
			}
		}
		if _, err := segment.AppendTo(nil, data[:i], 0); !errors.Is(err, segment.ErrDamaged) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}

// Whatever a blob holds, unpacking neither panics nor gives events beyond its bytes.
func FuzzAppendTo(f *testing.F) {
	f.Add(segment.Pack([]journal.Event{{Seq: 9, Time: 5, Type: 1, Data: []byte("hello")}})[0].Data)
	f.Add([]byte{1, 0, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = segment.Seal(data)
		events, err := segment.AppendTo(nil, data, 0)
		total := 0
		for _, e := range events {
			total += len(e.Data)
		}
		if total > len(data) || err != nil && !errors.Is(err, segment.ErrDamaged) {
			t.Fatalf("%d payload bytes of %d, %v", total, len(data), err)
		}
	})
}
