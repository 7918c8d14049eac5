package main

import (
	"fmt"
	"io"
	"strings"
)

// checkConfig reports every problem of the settings, or what they come to.
func checkConfig(s settings, stdout io.Writer) error {
	cfg, err := s.resolve()
	if err != nil {
		return err
	}
	var names []string
	for _, spec := range cfg.specs {
		names = append(names, spec.Name)
	}
	_, err = fmt.Fprintf(stdout, "configuration ok\nlisten  %s\nauth    %s\nagents  %s\nroots   %s\nstate   %s\n",
		cfg.Listen, cfg.Auth, strings.Join(names, ", "), strings.Join(cfg.roots, ", "), cfg.state)
	return err
}
