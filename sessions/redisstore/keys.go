package redisstore

import (
	"encoding/binary"
	"fmt"
	"net/url"
	"strconv"
)

// space makes the keys of one principal.
type space struct {
	principal string
	prefix    string // ends with ':'
}

func (s *Store) space(principal string) space {
	// PathEscape leaves no brace in the name, so the hash tag ends where it should.
	return space{principal, s.cfg.Prefix + ":{p:" + url.PathEscape(principal) + "}:"}
}

func (p space) counter() string           { return p.prefix + "v" }
func (p space) floor() string             { return p.prefix + "e" }
func (p space) channel() string           { return p.prefix + "w" }
func (p space) record(key string) string  { return p.prefix + "r:" + key }
func (p space) order(index string) string { return p.prefix + "i:" + index }
func (p space) rows(index string) string  { return p.prefix + "x:" + index }

// journal makes the keys of one journal.
func (p space) journal(name string) journalKeys {
	return journalKeys{p, name, p.prefix + "h:" + name, p.prefix + "n:" + name, p.prefix + "s:" + name, p.prefix + "f:" + name}
}

type journalKeys struct {
	space
	name                         string
	header, tail, stream, folded string
}

// change is how the journal is told to watchers.
func (j journalKeys) change() string { return "journal:" + j.name }

// fixed is a number as text that sorts like it.
func fixed(n uint64) string { return fmt.Sprintf("%020d", n) }

const versionDigits = 16 // of a version in front of a record's value; more than a Lua number holds exactly

func versionText(v uint64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%0*d", versionDigits, v)
}

const (
	orderBytes = 8
	signBit    = 1 << 63
)

// orderText is the part of a sorted-set member that puts it in its place: ascending texts are descending scores.
func orderText(score int64) string {
	var b [orderBytes]byte
	binary.BigEndian.PutUint64(b[:], ^(uint64(score) ^ signBit))
	return string(b[:])
}

func orderScore(text string) int64 {
	return int64(^binary.BigEndian.Uint64([]byte(text[:orderBytes])) ^ signBit)
}

// streamID is the id of a segment whose first event has seq.
func streamID(seq uint64) string { return strconv.FormatUint(seq, 10) + "-0" }
