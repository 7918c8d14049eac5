package agentpool

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ReadFile is ParseFile on the file at path.
func ReadFile(path string) ([]Spec, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("agents file: %w", err)
	}
	return ParseFile(path, data)
}

// ParseFile reads an agents file, YAML or JSON:
//
//	default: opencode
//	agents:
//	  opencode:
//	    command: opencode
//	    args: [acp]
//	    env: {OPENCODE_CONFIG: /etc/opencode.json}
//	    envAllow: [ANTHROPIC_*]
//	    limits: {line: 64MiB, pending: 4MiB, stdin: 64MiB}
//
// The package's README has every field. The specs come in the order of the file, the default one first. Unknown fields
// and fields given twice are errors; every problem is reported, as `FILE:LINE: field: problem`.
func ParseFile(name string, data []byte) ([]Spec, error) {
	r := fileReader{name: name}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		r.syntax(err)
		return nil, errors.Join(r.errs...)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		r.fail(1, "", "must be one document with agents")
		return nil, errors.Join(r.errs...)
	}
	specs := r.file(file.Docs[0].Body)
	return specs, errors.Join(r.errs...)
}

// fileReader collects the problems of one file.
type fileReader struct {
	name string
	errs []error
}

func (r *fileReader) fail(line int, field, text string) {
	if field != "" {
		field += ": "
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s%s", r.name, line, field, text))
}

// syntax reports an error of the YAML library, which has a position.
func (r *fileReader) syntax(err error) {
	line := 1
	text := err.Error()
	var positioned yaml.Error
	if errors.As(err, &positioned) {
		text = positioned.GetMessage()
		if tok := positioned.GetToken(); tok != nil {
			line = tok.Position.Line
		}
	}
	r.fail(line, "", text)
}

func (r *fileReader) file(body ast.Node) []Spec {
	var (
		specs       []Spec
		defaultName string
		defaultLine int
	)
	r.members("", body, func(key string, line int, value ast.Node) bool {
		switch key {
		case "default":
			defaultLine = line
			r.decode(key, line, value, &defaultName)
		case "agents":
			r.members(key, value, func(name string, line int, value ast.Node) bool {
				specs = append(specs, r.agent(name, line, value))
				return true
			})
		default:
			return false
		}
		return true
	})
	if len(specs) == 0 && len(r.errs) == 0 {
		r.fail(1, "agents", "must name at least one agent")
	}
	if defaultLine > 0 {
		i := slices.IndexFunc(specs, func(s Spec) bool { return s.Name == defaultName })
		if i < 0 {
			r.fail(defaultLine, "default", fmt.Sprintf("names no agent of this file (got %q)", defaultName))
			return specs
		}
		first := specs[i]
		specs = slices.Insert(slices.Delete(specs, i, i+1), 0, first)
	}
	return specs
}

// agent reads one entry and reports what Spec.Validate would, at the line of the field.
func (r *fileReader) agent(name string, line int, body ast.Node) Spec {
	s := Spec{Name: name}
	path := "agents." + name
	lines := map[string]int{}
	before := len(r.errs)
	fields := map[string]any{
		"title": &s.Title, "command": &s.Command, "args": &s.Args, "env": &s.Env, "envAllow": &s.EnvAllow, "dir": &s.Dir,
		"mcpServers": (*mcpServers)(&s.MCPServers), "fs": &s.FS, "fsMaxBytes": (*size)(&s.FSMaxBytes),
		"sessionsPerProcess": &s.SessionsPerProcess, "sandbox": &s.Sandbox, "sandboxRead": &s.SandboxRead,
		"startTimeout": (*duration)(&s.StartTimeout), "prewarm": &s.Prewarm,
	}
	limits := map[string]any{
		"line": (*size)(&s.LineLimit), "stdin": (*size)(&s.StdinLimit), "pending": (*size)(&s.PendingLimit),
	}
	r.members(path, body, func(key string, line int, value ast.Node) bool {
		lines[key] = line
		if key == "limits" {
			r.members(path+".limits", value, func(key string, line int, value ast.Node) bool {
				lines["limits."+key] = line
				into, ok := limits[key]
				if ok {
					r.decode(path+".limits."+key, line, value, into)
				}
				return ok
			})
			return true
		}
		into, ok := fields[key]
		if ok {
			r.decode(path+"."+key, line, value, into)
		}
		return ok
	})
	if len(r.errs) > before {
		return s // what could not be read would be reported again as missing
	}
	for _, p := range s.problems() {
		at, ok := lines[p.field]
		if !ok {
			at = line
		}
		r.fail(at, path+"."+p.field, p.text)
	}
	return s
}

// members calls each for every member of a mapping; each returns false for a name that it does not know.
func (r *fileReader) members(path string, node ast.Node, each func(key string, line int, value ast.Node) bool) {
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		r.fail(lineOf(node), path, "must not be empty")
	case *ast.AnchorNode, *ast.AliasNode:
		r.fail(lineOf(node), path, "anchors and aliases are not supported")
	default:
		r.fail(lineOf(node), path, "must be a mapping")
	}
	for _, v := range values {
		line := lineOf(v.Key)
		var key string
		if err := yaml.NodeToValue(v.Key, &key); err != nil {
			r.fail(line, path, "names must be text")
			continue
		}
		if !each(key, line, v.Value) {
			field := key
			if path != "" {
				field = path + "." + key
			}
			r.fail(line, field, "unknown field")
		}
	}
}

func lineOf(node ast.Node) int {
	if tok := node.GetToken(); tok != nil {
		return tok.Position.Line
	}
	return 1
}

// fromYAML is a field that is not decoded by the library. value is what an untyped decode gives.
type fromYAML interface{ fromYAML(value any) error }

func (r *fileReader) decode(field string, line int, node ast.Node, into any) {
	var err error
	if special, ok := into.(fromYAML); ok {
		var value any
		if err = yaml.NodeToValue(node, &value, yaml.UseOrderedMap()); err == nil {
			err = special.fromYAML(value)
		}
	} else {
		err = yaml.NodeToValue(node, into, yaml.Strict())
	}
	if err == nil {
		return
	}
	text := err.Error()
	var positioned yaml.Error
	if errors.As(err, &positioned) {
		text = positioned.GetMessage()
		if tok := positioned.GetToken(); tok != nil {
			line = tok.Position.Line
		}
	}
	r.fail(line, field, text)
}

// size is a number of bytes: 1048576, 512KiB, 64MiB, 1GiB.
type size int64

func (s *size) fromYAML(value any) error {
	switch v := value.(type) {
	case uint64:
		if v > math.MaxInt64 {
			return fmt.Errorf("too large (got %d)", v)
		}
		*s = size(v)
		return nil
	case string:
		n, err := ParseSize(v)
		*s = size(n)
		return err
	}
	return fmt.Errorf("must be a number of bytes such as 64MiB (got %v)", value)
}

// ParseSize reads a number of bytes with an optional unit: B, KiB, MiB or GiB.
func ParseSize(s string) (int64, error) {
	digits, unit := s, int64(1)
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}} {
		if rest, ok := strings.CutSuffix(s, u.suffix); ok {
			digits, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/unit {
		return 0, fmt.Errorf("must be a number of bytes such as 64MiB (got %q)", s)
	}
	return n * unit, nil
}

// duration is a time such as 90s or 2m.
type duration time.Duration

func (d *duration) fromYAML(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("must be a time with a unit such as 90s (got %v)", value)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("must be a time with a unit such as 90s (got %q)", text)
	}
	*d = duration(parsed)
	return nil
}

// mcpServers keeps each entry as JSON, members in the order of the file.
type mcpServers []json.RawMessage

func (m *mcpServers) fromYAML(value any) error {
	list, ok := value.([]any)
	if !ok {
		return fmt.Errorf("must be a list (got %T)", value)
	}
	for _, entry := range list {
		raw, err := orderedJSON(nil, entry)
		if err != nil {
			return err
		}
		*m = append(*m, raw)
	}
	return nil
}

// orderedJSON appends what an untyped, ordered YAML decode gave as JSON.
func orderedJSON(dst []byte, value any) ([]byte, error) {
	var err error
	switch v := value.(type) {
	case yaml.MapSlice:
		dst = append(dst, '{')
		for i, item := range v {
			key, ok := item.Key.(string)
			if !ok {
				return nil, fmt.Errorf("names must be text (got %v)", item.Key)
			}
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = orderedJSON(dst, key); err != nil {
				return nil, err
			}
			if dst, err = orderedJSON(append(dst, ':'), item.Value); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = orderedJSON(dst, item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("not expressible as JSON: %w", err)
	}
	return append(dst, raw...), nil
}
