package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// source is one Go file of the module, whatever its build tags.
type source struct {
	path string // slash-separated, from the root
	pkg  string // folder of path
	test bool
	text []byte
	ast  *ast.File
}

func (f source) imports() []string {
	var out []string
	for _, spec := range f.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// importNames maps the names by which the file calls its imports to their paths.
func (f source) importNames() map[string]string {
	names := map[string]string{}
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" {
			name = path.Base(path.Dir(p))
		}
		if p == "github.com/coder/acp-go-sdk" {
			name = "acp"
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = p
	}
	return names
}

func parseSource(t *testing.T, rel string, text []byte) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), rel, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return source{path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), text: text, ast: file}
}

func sources(t *testing.T) []source {
	t.Helper()
	root := repoRoot(t)
	var out []source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if p != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || isFile(filepath.Join(p, "go.mod"))) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		out = append(out, parseSource(t, filepath.ToSlash(rel), text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// selectors calls visit with every use of a name of an imported package below node.
func (f source) selectors(node ast.Node, visit func(imported, name string)) {
	names := f.importNames()
	ast.Inspect(node, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if ident, ok := sel.X.(*ast.Ident); ok && names[ident.Name] != "" {
				visit(names[ident.Name], sel.Sel.Name)
			}
		}
		return true
	})
}

// exported calls visit with every type expression that an exported declaration shows.
func (f source) exported(visit func(where string, expr ast.Expr)) {
	for _, decl := range f.ast.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
				visit("func "+d.Name.Name, d.Type)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.IsExported() {
						visitType("type "+s.Name.Name, s.Type, visit)
					}
				case *ast.ValueSpec:
					if s.Type != nil && slices.ContainsFunc(s.Names, (*ast.Ident).IsExported) {
						visit(d.Tok.String()+" "+s.Names[0].Name, s.Type)
					}
				}
			}
		}
	}
}

// visitType leaves the unexported fields of a struct out: nobody outside can see them.
func visitType(where string, expr ast.Expr, visit func(string, ast.Expr)) {
	structure, ok := expr.(*ast.StructType)
	if !ok {
		visit(where, expr)
		return
	}
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, (*ast.Ident).IsExported) {
			visit(where, field.Type)
		}
	}
}

func exportedReceiver(recv *ast.FieldList) bool {
	exported := false
	ast.Inspect(recv.List[0].Type, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok && ident.IsExported() {
			exported = true
		}
		return true
	})
	return exported
}

// within reports whether the import path is the dependency or, unless that is of the standard library, inside it.
func within(imported, dependency string) bool {
	thirdParty := strings.Contains(dependency, ".")
	return imported == dependency || thirdParty && strings.HasPrefix(imported, dependency+"/")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// holdsFiles tells a folder of the repository from an empty one and from one with build output that git ignores.
func holdsFiles(t *testing.T, dir string) bool {
	t.Helper()
	if name := filepath.Base(dir); name == "dist" || name == "node_modules" {
		return false
	}
	found := false
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		found = found || err == nil && !d.IsDir()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// repoRoot is the folder of the module's go.mod.
func repoRoot(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "go.mod")); err != nil || !bytes.Contains(b, []byte("module "+module+"\n")) {
		t.Fatalf("%s is not the root of %s: %v", dir, module, err)
	}
	return dir
}
