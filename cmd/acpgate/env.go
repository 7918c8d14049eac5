package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

const envPrefix = "ACPGATE_"

// envName is the environment variable of a flag: --frame-limit is ACPGATE_FRAME_LIMIT.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// environment is the ACPGATE_* part of the environment, as a source of flag values.
type environment map[string]string

func newEnvironment(environ []string) environment {
	e := environment{}
	kubernetes := slices.ContainsFunc(environ, func(s string) bool { return strings.HasPrefix(s, "KUBERNETES_SERVICE_HOST=") })
	for _, s := range environ {
		name, value, _ := strings.Cut(s, "=")
		if !strings.HasPrefix(name, envPrefix) || kubernetes && serviceLink(name) {
			continue
		}
		e[name] = value
	}
	return e
}

// serviceLink recognises the variables that Kubernetes sets in every pod beside a service named "acpgate". They are no
// configuration, and the unknown ones among them must not stop the gateway.
func serviceLink(name string) bool {
	return regexp.MustCompile(`^ACPGATE_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`).MatchString(name)
}

var _ kong.Resolver = environment(nil)

// Validate refuses variables that belong to no flag of any command, all of them at once and with the nearest spelling: a
// misspelt limit that is silently ignored is a limit that is not there.
func (e environment) Validate(app *kong.Application) error {
	known := map[string]bool{}
	_ = kong.Visit(app, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			known[envName(flag.Name)] = true
		}
		return next(nil)
	})
	var problems []string
	for name := range e {
		if known[name] {
			continue
		}
		problem := name + ": no such setting"
		if near := nearest(name, known); near != "" {
			problem += ", did you mean " + near + "?"
		}
		problems = append(problems, problem)
	}
	return problemsError(problems)
}

// Resolve gives a flag that is not on the command line the value of its variable. An empty variable counts as absent, so
// that "ACPGATE_TOKEN_FILE=" in a compose file switches nothing on. Flags that repeat take one value per line, and --root
// also a list with the system's path separator.
func (e environment) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	value, ok := e[envName(flag.Name)]
	if !ok || value == "" {
		return nil, nil
	}
	if !flag.IsCumulative() {
		return value, nil
	}
	separators := "\n"
	if flag.Name == "root" {
		separators += string(os.PathListSeparator)
	}
	var values []any
	for _, v := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		if v = strings.TrimSpace(v); v != "" {
			values = append(values, v)
		}
	}
	return values, nil
}

// origin is the variable that err, an error about a flag, is about; empty if the flag was given or err is another error.
func (e environment) origin(err error, args []string) string {
	for name := range e {
		flag := "--" + strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, envPrefix)), "_", "-")
		given := slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
		if !given && (strings.HasPrefix(err.Error(), flag+":") || strings.HasPrefix(err.Error(), flag+" ")) {
			return name
		}
	}
	return ""
}

// nearest is the known name at the smallest edit distance, if that is near enough to be a typing error.
func nearest(name string, known map[string]bool) string {
	best, bestDistance := "", 1+(len(name)-len(envPrefix))/3
	for k := range known {
		if d := distance(name, k); d < bestDistance || d == bestDistance && best != "" && k < best {
			best, bestDistance = k, d
		}
	}
	return best
}

// distance is the Levenshtein distance of two ASCII strings.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// problemsError joins problems, sorted, one per line; nil without any.
func problemsError(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return usageError{fmt.Errorf("%s", strings.Join(problems, "\n"))}
}
