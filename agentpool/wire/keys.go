package wire

import (
	"bytes"
	"hash/maphash"
)

const (
	inlineKeys = 24 // open members that need no allocation
	linearKeys = 24 // members of one object up to which names are compared one by one
	tableSize  = 64 // slots of the hash table of an object with more
)

// keyRef is the name of a member: bytes of scanner.b, or of scanner.names when it was written with escapes.
type keyRef struct {
	hash  uint32 // of the name; weak up to linearKeys members, seeded beyond
	start uint32 // with inNames if it is one of scanner.names; no frame is that long
	end   uint32
}

const inNames = 1 << 31

// open returns the names of all open objects.
func (s *scanner) open() []keyRef {
	if s.spill != nil {
		return s.spill[:s.numKeys]
	}
	return s.room[:s.numKeys]
}

func (s *scanner) keyBytes(k keyRef) []byte {
	if k.start&inNames != 0 {
		return s.names[k.start&^inNames : k.end]
	}
	return s.b[k.start:k.end]
}

// pushKey adds the name between start and end of s.b, as written, to the stack, as one of the object whose names start at
// base. It returns the name decoded, and the hash table of the object, which is nil up to linearKeys members. ok is false
// when the object has a member of that name already.
func (s *scanner) pushKey(start, end int, escaped bool, base int, table []uint32) (name []byte, _ []uint32, ok bool) {
	k := keyRef{start: uint32(start), end: uint32(end)}
	name = s.b[start:end]
	if escaped {
		from := len(s.names)
		s.names = appendDecoded(s.names, name)
		k.start, k.end = uint32(from)|inNames, uint32(len(s.names))
		name = s.names[from:]
	}
	if n := len(name); n > 0 {
		k.hash = uint32(n)<<16 ^ uint32(name[0])<<8 ^ uint32(name[n-1])
	}
	n := s.numKeys
	s.numKeys++
	switch {
	case s.spill != nil:
		s.spill = append(s.spill[:n], k)
	case n < inlineKeys:
		s.room[n] = k
	default:
		s.spill = append(append(make([]keyRef, 0, 4*inlineKeys), s.room[:]...), k)
	}
	if n-base >= linearKeys {
		table = s.insertKey(table, base)
		return name, table, table != nil
	}
	for _, o := range s.open()[base:n] {
		if o.hash == k.hash && bytes.Equal(s.keyBytes(o), name) {
			return name, nil, false
		}
	}
	return name, nil, true
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
	n := len(s.tables)
	if n == 0 {
		return make([]uint32, tableSize)
	}
	t := s.tables[n-1][:tableSize]
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
