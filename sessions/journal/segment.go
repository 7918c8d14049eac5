package journal

import "github.com/acpgate/acpgate/agentpool/wire"

// LineLimits are those under which lines of agents are accepted, and so those under which events are parsed again: half a
// surrogate pair passes, because agents cut texts in the middle of an emoji.
func LineLimits() wire.Limits { return wire.Limits{LoneSurrogates: true} }

const (
	segBytes  = 64 << 10 // payload bytes of a segment; a larger event has one of its own
	segEvents = 1024
)

// segment is a run of events. Both slices only grow: what a reader has taken of them under the journal's lock stays valid
// without it, even when an append moved them.
type segment struct {
	first uint64
	buf   []byte
	ev    []header
}

type header struct {
	time int64
	end  uint32 // of the payload in buf; it starts where the one before ends
	typ  Type
}

func (s *segment) add(t Type, ms int64, data []byte) {
	s.buf = append(s.buf, data...)
	s.ev = append(s.ev, header{ms, uint32(len(s.buf)), t})
}

// Chunk is a run of consecutive events of one segment.
type Chunk struct {
	first uint64
	base  uint32 // where the first payload starts
	buf   []byte
	ev    []header
}

// Len is the number of events.
func (c Chunk) Len() int { return len(c.ev) }

// At returns the i-th event.
func (c Chunk) At(i int) Event {
	start := c.base
	if i > 0 {
		start = c.ev[i-1].end
	}
	h := c.ev[i]
	return Event{Seq: c.first + uint64(i), Time: h.time, Type: h.typ, Data: c.buf[start:h.end:h.end]}
}

func (s *segment) from(seq uint64) Chunk {
	i := int(seq - s.first)
	c := Chunk{first: seq, buf: s.buf, ev: s.ev[i:]}
	if i > 0 {
		c.base = s.ev[i-1].end
	}
	return c
}
