package sessions

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// checkDir applies rule T4: a workspace directory is absolute, exists, is a directory and lies inside an allowed root once
// the kernel has resolved its links. It returns the cleaned path.
func (m *Manager) checkDir(field, dir string) (string, error) {
	switch {
	case dir == "":
		return "", errParams(field+" is missing", "send the absolute path of a directory on the server")
	case strings.IndexByte(dir, 0) >= 0:
		return "", errParams(field+" contains a NUL byte", "send a plain path")
	case !filepath.IsAbs(dir):
		return "", errParams(field+" must be absolute: "+clip(dir, 200), "send the absolute path of a directory on the server")
	}
	clean := filepath.Clean(dir)
	// The path as it was sent, not the cleaned one: "link/../x" means what the kernel says it means.
	real, err := filepath.EvalSymlinks(dir)
	if err == nil {
		var fi os.FileInfo
		if fi, err = os.Stat(real); err == nil && !fi.IsDir() {
			return "", errParams(field+" is not a directory: "+clip(dir, 200), "send the path of a directory")
		}
	}
	inside := err == nil && m.inRoots(real)
	if err != nil && m.inRoots(clean) {
		if errors.Is(err, fs.ErrNotExist) {
			return "", errParams(field+" does not exist on the server: "+clip(dir, 200), "create the directory or choose another")
		}
		return "", errParams(field+" cannot be used: "+clip(dir, 200)+": "+plainErr(err), "choose another directory")
	}
	if !inside {
		// The same answer whether it exists or not: what lies outside the roots is nobody's business.
		return "", errParams(field+" is outside the allowed directories: "+clip(dir, 200),
			"choose a directory inside "+strings.Join(m.cfg.Roots, ", ")+", or start the gateway with --root")
	}
	return clean, nil
}

func (m *Manager) inRoots(p string) bool {
	for _, r := range m.roots {
		if p == r || r == "/" || strings.HasPrefix(p, r+string(filepath.Separator)) {
			return true
		}
	}
	return false
}

func plainErr(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
