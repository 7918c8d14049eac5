package wire

import "bytes"

// role says which object of a message is scanned, for its members that have a place in Frame.
type role uint8

const (
	roleOther role = iota
	roleTop
	roleParams
	roleResult
	roleMeta
	roleUpdate
)

func (s *scanner) top(f *Frame) int {
	if s.b[0] == '{' {
		return s.object(0, 1, roleTop, f)
	}
	return s.value(0, 0)
}

// value scans the value at i, which is inside depth objects and arrays.
func (s *scanner) value(i, depth int) int {
	if i >= len(s.b) {
		return s.fail(ErrSyntax, i, "unexpected end")
	}
	switch c := s.b[i]; c {
	case '"':
		end, _ := s.str(i)
		return end
	case '{':
		return s.object(i, depth+1, roleOther, nil)
	case '[':
		return s.array(i, depth+1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return s.number(i)
	default:
		return s.fail(ErrSyntax, i, "not the start of a value")
	}
}

func (s *scanner) space(i int) int {
	for i < len(s.b) && s.b[i] <= ' ' && isSpace(s.b[i]) {
		i++
	}
	return i
}

// at reports whether the byte at i is c.
func (s *scanner) at(i int, c byte) bool { return i < len(s.b) && s.b[i] == c }

func (s *scanner) object(i, depth int, r role, f *Frame) int {
	if depth > s.maxDepth {
		return s.fail(ErrDepth, i, "nested too deep")
	}
	i = s.space(i + 1)
	if s.at(i, '}') {
		return i + 1
	}
	base, namesBase := s.numKeys, len(s.names)
	var table []uint32 // of the member names, once there are many
	for {
		if !s.at(i, '"') {
			return s.fail(ErrSyntax, i, "expected the name of a member")
		}
		nameAt := i
		end, escaped := s.str(i)
		if end < 0 {
			return -1
		}
		var (
			name []byte
			ok   bool
		)
		if name, table, ok = s.pushKey(nameAt+1, end-1, escaped, base, table); !ok {
			return s.fail(ErrDuplicateKey, nameAt, "two members of one name")
		}
		i = s.space(end)
		if !s.at(i, ':') {
			return s.fail(ErrSyntax, i, "expected a colon")
		}
		i = s.space(i + 1)
		valueAt := i
		if r == roleOther {
			i = s.value(i, depth)
		} else {
			i = s.part(nameAt, name, i, depth, r, f)
		}
		if i < 0 {
			return -1
		}
		i = s.space(i)
		if s.at(i, ',') {
			i = s.space(i + 1)
			continue
		}
		if s.at(i, '}') {
			break
		}
		return s.fail(ErrSyntax, max(i, valueAt), "expected a comma or the end of the object")
	}
	s.numKeys, s.names = base, s.names[:namesBase]
	if table != nil {
		s.tables = append(s.tables, table)
	}
	return i + 1
}

// part scans the value at i of a member of an object with a role, and notes its place if it has one in Frame.
func (s *scanner) part(nameAt int, name []byte, i, depth int, r role, f *Frame) int {
	var (
		place *Span
		only  byte // first byte of the one type that counts, 0: any
		sub   role
	)
	switch r {
	case roleTop:
		switch string(name) {
		case "jsonrpc":
			place = &s.jsonrpc
		case "id":
			place = &s.id
		case "method":
			place = &s.method
		case "params":
			place, sub = &f.Params, roleParams
		case "result":
			place, sub = &f.Result, roleResult
		case "error":
			place = &f.Error
		}
	case roleParams, roleResult:
		switch string(name) {
		case "sessionId":
			place, only = &f.SessionID, '"'
		case "_meta":
			place, only, sub = &f.Meta, '{', roleMeta
			if !s.at(i, '{') {
				place, only = &f.oddMeta, 0
			}
		case "update":
			if r == roleParams {
				place, only, sub = &f.Update, '{', roleUpdate
			}
		case "stopReason":
			if r == roleResult {
				place, only = &f.StopReason, '"'
			}
		}
	case roleMeta:
		if string(name) == "acpgate" {
			place = &f.GateMeta
		}
	case roleUpdate:
		if string(name) == "sessionUpdate" {
			place, only = &f.UpdateKind, '"'
		}
	}
	if place == nil && s.client && foldsToPart(r, name) {
		s.wrongCase = Span{nameAt, nameAt + 1}
	}
	var end int
	switch {
	case s.at(i, '"'):
		end, _ = s.str(i)
	case s.at(i, '{'):
		end = s.object(i, depth+1, sub, f)
	default:
		end = s.value(i, depth)
	}
	if end >= 0 && place != nil && (only == 0 || s.b[i] == only) {
		*place = Span{i, end}
		if r == roleMeta {
			f.gateMember = Span{nameAt, end}
		}
	}
	return end
}

// foldsToPart reports whether name, which is no part, becomes the name of one that acpgate routes by when case is ignored.
// Decoders that do ignore it (encoding/json) would see another message than we do.
func foldsToPart(r role, name []byte) bool {
	if r == roleParams {
		return bytes.EqualFold(name, []byte("sessionId"))
	}
	if r == roleTop {
		for _, part := range [...]string{"jsonrpc", "id", "method", "params", "result", "error"} {
			if bytes.EqualFold(name, []byte(part)) {
				return true
			}
		}
	}
	return false
}

func (s *scanner) array(i, depth int) int {
	if depth > s.maxDepth {
		return s.fail(ErrDepth, i, "nested too deep")
	}
	i = s.space(i + 1)
	if s.at(i, ']') {
		return i + 1
	}
	for {
		if i = s.value(i, depth); i < 0 {
			return -1
		}
		i = s.space(i)
		if s.at(i, ',') {
			i = s.space(i + 1)
			continue
		}
		if s.at(i, ']') {
			return i + 1
		}
		return s.fail(ErrSyntax, i, "expected a comma or the end of the array")
	}
}

func (s *scanner) literal(i int, word string) int {
	if len(s.b)-i < len(word) || string(s.b[i:i+len(word)]) != word {
		return s.fail(ErrSyntax, i, "not a literal")
	}
	return i + len(word)
}

func (s *scanner) number(i int) int {
	if s.b[i] == '-' {
		i++
	}
	if s.at(i, '0') {
		i++
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if s.at(i, '.') {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if s.at(i, 'e') || s.at(i, 'E') {
		i++
		if s.at(i, '+') || s.at(i, '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

// digits scans one digit or more.
func (s *scanner) digits(i int) int {
	start := i
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		i++
	}
	if i == start {
		return s.fail(ErrSyntax, i, "expected a digit")
	}
	return i
}
