package wire

import (
	"bytes"
	"hash/maphash"
)

const (
	inlineKeys = 32 // open members that need no allocation
	linearKeys = 32 // members of one object up to which names are compared one by one
)

// keyRef is the name of a member: bytes of scanner.b, or of scanner.names when it was written with escapes.
type keyRef struct {
	hash       uint32 // of the name; weak up to linearKeys members, seeded beyond
	start, end uint32
	decoded    bool
}

// open returns the names of all open objects.
func (s *scanner) open() []keyRef {
	if s.spill != nil {
		return s.spill[:s.numKeys]
	}
	return s.room[:s.numKeys]
}

func (s *scanner) keyBytes(k keyRef) []byte {
	if k.decoded {
		return s.names[k.start:k.end]
	}
	return s.b[k.start:k.end]
}

// pushKey adds the name between start and end of s.b to the stack and returns it decoded.
func (s *scanner) pushKey(start, end int, escaped bool) []byte {
	k := keyRef{start: uint32(start), end: uint32(end)}
	name := s.b[start:end]
	if escaped {
		k.start = uint32(len(s.names))
		s.names = appendDecoded(s.names, name)
		k.end, k.decoded = uint32(len(s.names)), true
		name = s.names[k.start:]
	}
	if n := len(name); n > 0 {
		k.hash = uint32(n)<<16 ^ uint32(name[0])<<8 ^ uint32(name[n-1])
	}
	switch {
	case s.spill != nil:
		s.spill = append(s.spill[:s.numKeys], k)
	case s.numKeys < inlineKeys:
		s.room[s.numKeys] = k
	default:
		s.spill = append(append(make([]keyRef, 0, 4*inlineKeys), s.room[:]...), k)
	}
	s.numKeys++
	return name
}

// isRepeated compares the newest name with those from base on.
func (s *scanner) isRepeated(base int) bool {
	keys := s.open()[base:]
	last := len(keys) - 1
	k := keys[last]
	for _, o := range keys[:last] {
		if o.hash == k.hash && bytes.Equal(s.keyBytes(o), s.keyBytes(k)) {
			return true
		}
	}
	return false
}

// insertKey puts the newest name into the hash table of the object whose names start at base, building the table when it
// is nil. It returns nil if the name is there already. Slots hold an index relative to base, plus one.
func (s *scanner) insertKey(table []uint32, base int) []uint32 {
	last := s.numKeys - 1
	switch {
	case table == nil:
		table = s.newTable()
		for i := base; i < last; i++ {
			s.seededHash(i)
			s.place(table, base, i)
		}
	case 2*(last-base+1) > len(table):
		table = doubleTable(table)
		for i := base; i < last; i++ {
			s.place(table, base, i)
		}
	}
	s.seededHash(last)
	if !s.place(table, base, last) {
		return nil
	}
	return table
}

// newTable returns an empty table of the smallest size, a spare one of this frame if there is one. Only as much of it as
// is used is ever cleared, so the time stays in proportion to the number of members.
func (s *scanner) newTable() []uint32 {
	const size = 4 * linearKeys
	n := len(s.tables)
	if n == 0 {
		return make([]uint32, size)
	}
	t := s.tables[n-1][:size]
	s.tables = s.tables[:n-1]
	clear(t)
	return t
}

func doubleTable(t []uint32) []uint32 {
	n := 2 * len(t)
	if n > cap(t) {
		return make([]uint32, n)
	}
	t = t[:n]
	clear(t)
	return t
}

// seededHash replaces the hash of a name by one that nobody can aim at.
func (s *scanner) seededHash(i int) {
	if s.seed == (maphash.Seed{}) {
		s.seed = maphash.MakeSeed()
	}
	k := &s.open()[i]
	k.hash = uint32(maphash.Bytes(s.seed, s.keyBytes(*k)))
}

// place puts name i into table, false if an equal one is there.
func (s *scanner) place(table []uint32, base, i int) bool {
	keys := s.open()[base:]
	k := keys[i-base]
	mask := uint32(len(table) - 1)
	for at := k.hash & mask; ; at = (at + 1) & mask {
		slot := table[at]
		if slot == 0 {
			table[at] = uint32(i-base) + 1
			return true
		}
		o := keys[slot-1]
		if o.hash == k.hash && bytes.Equal(s.keyBytes(o), s.keyBytes(k)) {
			return false
		}
	}
}
