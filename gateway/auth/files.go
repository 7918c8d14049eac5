package auth

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// readFile reads a file of secrets, at most 1 MiB.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	const limit = 1 << 20
	if info.Size() > limit {
		return nil, nil, fmt.Errorf("%s: larger than %d bytes", path, limit)
	}
	b := make([]byte, info.Size())
	n, err := f.ReadAt(b, 0)
	if n < len(b) {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, info, nil
}

// createOnce returns the content of path, which is made with what fill returns if it does not exist. Two that do so at the
// same time get the same content, and nobody sees half of it.
func createOnce(path string, fill func() []byte) ([]byte, error) {
	b, _, err := readFile(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	tmp, err := writeTemp(path, fill())
	if err != nil {
		return nil, err
	}
	err = os.Link(tmp, path)
	if rmErr := os.Remove(tmp); err == nil {
		err = rmErr
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	b, _, err = readFile(path)
	return b, err
}

// replaceFile replaces path at once: a reader sees the old content or the new.
func replaceFile(path string, content []byte) error {
	tmp, err := writeTemp(path, content)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// writeTemp writes content to a file of mode 0600 beside path and returns its name.
func writeTemp(path string, content []byte) (string, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
