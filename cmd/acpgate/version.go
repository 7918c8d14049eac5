package main

import "runtime/debug"

// version is the module's version when the binary was installed by it, else the commit it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	v := "devel"
	if revision := settings["vcs.revision"]; revision != "" {
		v += "+" + revision[:min(12, len(revision))]
		if settings["vcs.modified"] == "true" {
			v += ".dirty"
		}
	}
	return v
}
