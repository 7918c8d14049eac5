package agentpool

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// gatewayVars is the prefix of the gateway's own settings and secrets, which no agent ever gets.
const gatewayVars = "ACPGATE_"

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// usualVars are copied from the gateway's environment for every agent.
func usualVars() []string {
	return []string{
		"PATH", "LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ",
		"SSL_CERT_*", "NODE_EXTRA_CA_CERTS",
		"http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
	}
}

// homeVars are copied only for agents that have the home of the gateway's user: they point into it.
func homeVars() []string { return []string{"HOME", "XDG_*"} }

func isGatewayVar(name string) bool { return strings.HasPrefix(name, gatewayVars) }

func validateEnvPattern(pattern string) error {
	name := strings.TrimSuffix(pattern, "*")
	switch {
	case !envForm.MatchString(name):
		return fmt.Errorf("must be a variable name or PREFIX_* (got %q)", pattern)
	case isGatewayVar(name):
		return fmt.Errorf("variables of the gateway are never copied (got %q)", pattern)
	}
	return nil
}

// agentEnv builds the environment of an agent from that of the gateway (rule T3). home is empty where the agent shares
// the home of the gateway's user. The result is sorted.
func agentEnv(gateway []string, allow []string, set map[string]string, home string) []string {
	patterns := append(usualVars(), allow...)
	if home == "" {
		patterns = append(patterns, homeVars()...)
	}
	vars := map[string]string{"PATH": defaultPath}
	for _, entry := range gateway {
		name, value, ok := strings.Cut(entry, "=")
		if ok && !isGatewayVar(name) && matchesAny(patterns, name) {
			vars[name] = value
		}
	}
	if home != "" {
		vars["HOME"] = home
	}
	for name, value := range set {
		vars[name] = value
	}
	env := make([]string, 0, len(vars))
	for name, value := range vars {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return p == name
	})
}

// lookEnv returns the value of a variable of env, "" if it has none.
func lookEnv(env []string, name string) string {
	for _, entry := range env {
		if n, v, ok := strings.Cut(entry, "="); ok && n == name {
			return v
		}
	}
	return ""
}

// lookCommand finds a command in the PATH that the agent will have, which need not be the gateway's. A name with a slash
// is a path, relative to the gateway's working directory.
func lookCommand(command, path string) (string, error) {
	if strings.Contains(command, "/") {
		abs, err := filepath.Abs(command)
		if err != nil {
			return "", err
		}
		return abs, isExecutable(abs)
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue // a workspace must not be able to put programs in front of the system's
		}
		file := filepath.Join(dir, command)
		if isExecutable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("command %q is not in PATH", command)
}

func isExecutable(file string) error {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory", file)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s is not executable", file)
	}
	return nil
}
