package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/acpgate/acpgate/gateway/auth"
)

// tokenState opens the state directory that a token command works on.
func tokenState(flag string) (stateDir, error) {
	var p problems
	path := resolveState(flag, &p)
	if err := p.err(); err != nil {
		return "", err
	}
	return openStateDir(path)
}

func tokenAdd(state, name string, stdout io.Writer) error {
	dir, err := tokenState(state)
	if err != nil {
		return err
	}
	token, err := auth.AddToken(string(dir), name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, token)
	return err
}

func tokenList(state string, stdout io.Writer) error {
	dir, err := tokenState(state)
	if err != nil {
		return err
	}
	tokens, err := auth.ListTokens(string(dir))
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tCREATED")
	if _, err := os.Stat(dir.join("token")); err == nil {
		fmt.Fprintf(table, "%s\tat first start, in %s\n", auth.Local, dir.join("token"))
	}
	for _, t := range tokens {
		fmt.Fprintf(table, "%s\t%s\n", t.Name, t.Created.UTC().Format("2006-01-02 15:04 UTC"))
	}
	return table.Flush()
}

func tokenRemove(state, name string, stdout io.Writer) error {
	dir, err := tokenState(state)
	if err != nil {
		return err
	}
	err = auth.RemoveToken(string(dir), name)
	switch {
	case errors.Is(err, auth.ErrNoToken):
		return fmt.Errorf("no token has the name %q: acpgate token list shows them all", name)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(stdout, "removed %s: its logins and connections end\n", name)
	return err
}
