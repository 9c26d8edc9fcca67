//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// useHome makes a new folder the home of the user, and another one the current folder.
func useHome(t *testing.T) (home string) {
	t.Helper()
	home = t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": "", "XDG_CACHE_HOME": "", "CODEX_HOME": ""} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir())
	return home
}

// TestAddsOfSeveralProcesses: no entry is lost when several processes change a file.
func TestAddsOfSeveralProcesses(t *testing.T) {
	home := useHome(t)
	path := filepath.Join(home, ".cursor", "mcp.json")
	if err := errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"mcpServers":{}}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	const processes, rounds = 4, 8
	for round := range rounds {
		var running []*exec.Cmd
		for n := range processes {
			command := exec.Command(os.Args[0], "add", fmt.Sprintf("s%d-%d", round, n), "--", "true")
			command.Env = append(os.Environ(), asProgram+"=1", "GORACE=atexit_sleep_ms=0")
			command.Stderr = os.Stderr
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			running = append(running, command)
		}
		for _, command := range running {
			if err := command.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ McpServers map[string]json.RawMessage }
	if err := json.Unmarshal(text, &file); err != nil || len(file.McpServers) != processes*rounds {
		t.Errorf("%d entries, want %d, error %v", len(file.McpServers), processes*rounds, err)
	}
}

// TestAddedProgramsAreAbsolute: a client that starts in another folder, with a shorter PATH, finds the program.
func TestAddedProgramsAreAbsolute(t *testing.T) {
	home := useHome(t)
	folder, err := os.Getwd()
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(home, ".cursor"), 0o700), os.Mkdir(".cursor", 0o700), os.Mkdir("bin", 0o700),
			os.WriteFile(filepath.Join("bin", "tool"), []byte("#!/bin/sh\n"), 0o700))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(folder, "bin"))
	tool := filepath.Join(folder, "bin", "tool")
	for _, test := range []struct {
		flag, program, want, said string
	}{
		{"-client=cursor", "tool", tool, ""},
		{"-client=cursor", "./bin/tool", tool, ""},
		{"-client=cursor", tool, tool, ""},
		{"-client=cursor", "nothing", "nothing", `the program "nothing" was not found`},
		{"-project", "tool", "tool", ""},
		{"-project", "./bin/tool", "./bin/tool", ""},
	} {
		path := filepath.Join(home, ".cursor", "mcp.json")
		if test.flag == "-project" {
			path = filepath.Join(".cursor", "mcp.json")
		}
		if err := os.WriteFile(path, []byte(`{"mcpServers":{}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, said strings.Builder
		if err := run(t.Context(), []string{"add", test.flag, "x", "--", test.program, "bin/tool"}, strings.NewReader(""), &out, &said); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			McpServers map[string]struct {
				Command string
				Args    []string
			}
		}
		if err := json.Unmarshal(text, &file); err != nil || file.McpServers["x"].Command != test.want || file.McpServers["x"].Args[0] != "bin/tool" {
			t.Errorf("%s %s: stored is %s, error %v", test.flag, test.program, text, err)
		}
		if (test.said == "") != (said.Len() == 0) || !strings.Contains(said.String(), test.said) {
			t.Errorf("%s %s: it says %q", test.flag, test.program, &said)
		}
	}
}

// TestAddedScriptsAreAbsolute: the arguments mean the same in the folder in which a client starts the program.
func TestAddedScriptsAreAbsolute(t *testing.T) {
	home := useHome(t)
	folder, err := os.Getwd()
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(home, ".cursor"), 0o700), os.Mkdir("dist", 0o700), os.Mkdir("time", 0o700))
	}
	for _, name := range []string{"server.py", "dist/index.js", "main.ts", "serve"} {
		err = errors.Join(err, os.WriteFile(name, nil, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"python server.py -v":                  "DIR/server.py -v",
		"python3.12 -u ./server.py":            "-u DIR/server.py",
		"/usr/bin/node dist/index.js x.json":   "DIR/dist/index.js x.json",
		"bun main.ts serve":                    "DIR/main.ts serve",
		"deno run -A main.ts":                  "run -A DIR/main.ts",
		"uv run server.py":                     "--directory DIR run server.py",
		"uv --directory /srv run server.py":    "--directory /srv run server.py",
		"go run ./x":                           "run -C DIR ./x",
		"go run -C /srv ./x":                   "run -C /srv ./x",
		"go run example.com/server@latest":     "run example.com/server@latest",
		"npx -y @acme/files ./dist ../nothing": "-y @acme/files DIR/dist ../nothing",
		"docker run -i time server.py":         "run -i time server.py",
	} {
		path := filepath.Join(home, ".cursor", "mcp.json")
		for flag, want := range map[string]string{"-client=cursor": strings.ReplaceAll(want, "DIR", folder), "-project": strings.Join(strings.Fields(line)[1:], " ")} {
			if flag == "-project" {
				path = filepath.Join(folder, ".cursor", "mcp.json")
			}
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(`{"mcpServers":{}}`), 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, err := inspectAt(t, append([]string{"add", flag, "x", "--"}, strings.Fields(line)...)...); err != nil {
				t.Fatal(err)
			}
			var file struct {
				McpServers map[string]struct{ Args []string }
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &file); err != nil || strings.Join(file.McpServers["x"].Args, " ") != want {
				t.Errorf("%s %s: stored is %s, error %v, want %s", flag, line, text, err, want)
			}
			path = filepath.Join(home, ".cursor", "mcp.json")
		}
	}
}

// TestAddThroughLinks: links of the user are followed, within a project for -project.
func TestAddThroughLinks(t *testing.T) {
	const empty = `{"mcpServers":{}}`
	for name, test := range map[string]struct {
		project bool
		link    func(home, project, file string) (from, to string) // to is the content of a link
		file    string                                             // relative to home, or the project; "" if it does not exist
		want    string                                             // of the error
	}{
		"a file elsewhere":                    {false, func(h, _, f string) (string, string) { return h + "/.cursor/mcp.json", f }, "dotfiles/mcp.json", ""},
		"a relative link":                     {false, func(h, _, _ string) (string, string) { return h + "/.cursor/mcp.json", "../dotfiles/mcp.json" }, "dotfiles/mcp.json", ""},
		"a folder elsewhere":                  {false, func(h, _, f string) (string, string) { return h + "/.cursor", filepath.Dir(f) }, "dotfiles/mcp.json", ""},
		"a link to nothing":                   {false, func(h, _, _ string) (string, string) { return h + "/.cursor/mcp.json", h + "/nothing" }, "", "leads to"},
		"a loop":                              {false, func(h, _, _ string) (string, string) { return h + "/.cursor/mcp.json", "mcp.json" }, "", "too many"},
		"a file of the project":               {true, func(_, p, _ string) (string, string) { return p + "/.cursor/mcp.json", "../tools/mcp.json" }, "tools/mcp.json", ""},
		"a file of the user in a project":     {true, func(h, p, _ string) (string, string) { return p + "/.cursor/mcp.json", h + "/.cursor/mcp.json" }, "/home", "leads out of the project"},
		"a folder of the user in a project":   {true, func(h, p, _ string) (string, string) { return p + "/.cursor", h + "/.cursor" }, "/home", "leads out of the project"},
		"a new file of a folder elsewhere":    {true, func(h, p, _ string) (string, string) { return p + "/.cursor", h + "/.config" }, "", "leads out of the project"},
		"a link to nothing out of a project":  {true, func(h, p, _ string) (string, string) { return p + "/.cursor/mcp.json", h + "/nothing" }, "", "leads to"},
		"a folder that leads out and back in": {true, func(_, p, _ string) (string, string) { return p + "/.cursor", "../" + filepath.Base(p) + "/tools" }, "tools/mcp.json", ""},
	} {
		t.Run(name, func(t *testing.T) {
			home := useHome(t)
			project, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			within := home
			if test.project {
				within = project
			}
			file := filepath.Join(within, test.file)
			if test.file == "/home" {
				file = filepath.Join(home, ".cursor", "mcp.json")
			}
			if test.file != "" {
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(empty), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			from, to := test.link(home, project, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o700), os.MkdirAll(home+"/.config", 0o700), os.Symlink(to, from)); err != nil {
				t.Fatal(err)
			}
			line := []string{"add", "-client", "cursor", "me", "--", "x"}
			if test.project {
				line = append([]string{"add", "-project"}, line[1:]...)
			}
			out, err := inspectAt(t, line...)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q:\n%s", err, test.want, out)
			}
			if test.file != "" {
				text, err := os.ReadFile(file)
				if err != nil || strings.Contains(string(text), `"me"`) != (test.want == "") {
					t.Errorf("error %v, the file is %s", err, text)
				}
			}
			if left, err := filepath.Glob(home + "/.config/*"); err != nil || len(left) > 0 {
				t.Errorf("files %q, error %v", left, err)
			}
			if info, err := os.Lstat(from); err != nil || info.Mode().Type() != os.ModeSymlink {
				t.Errorf("the link has gone: %v", err)
			}
		})
	}
}

// TestForeignLink: a symbolic link of another user is not followed.
func TestForeignLink(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can create links of other users")
	}
	home := useHome(t)
	file, link := filepath.Join(home, "mine.json"), filepath.Join(home, ".cursor", "mcp.json")
	if err := errors.Join(os.WriteFile(file, []byte(`{"mcpServers":{}}`), 0o600), os.Mkdir(filepath.Dir(link), 0o700), os.Symlink(file, link), os.Lchown(link, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	if out, err := inspectAt(t, "add", "me", "--", "x"); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
		t.Errorf("error %v:\n%s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || strings.Contains(string(text), "me") {
		t.Errorf("error %v, the file is %s", err, text)
	}
}

// TestFilesWithSecrets: files with secrets have the mode 0600, whatever mode an older file has. Programs that have the
// older transcript open see nothing of the new one.
func TestFilesWithSecrets(t *testing.T) {
	home := useHome(t)
	config := filepath.Join(home, ".cursor", "mcp.json")
	transcript, journal := filepath.Join(home, "t.jsonl"), filepath.Join(home, "journal")
	for path, text := range map[string]string{config: `{"mcpServers":{}}`, config + ".bak": "{}", transcript: "older", journal: ""} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	old, err := os.Open(transcript)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if out, err := inspectAt(t, "add", "me", "-header", "Authorization: secret", "https://example.com/mcp"); err != nil {
		t.Errorf("error %v:\n%s", err, out)
	}
	if out, err := inspectAt(t, append([]string{"tools", "-record", transcript}, child(t)...)...); err != nil {
		t.Errorf("error %v:\n%s", err, out)
	}
	start(t, "-journal", journal)
	for _, path := range []string{config, config + ".bak", transcript, journal} {
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, error %v", path, info, err)
		}
	}
	seen := make([]byte, 100)
	if n, _ := old.Read(seen); string(seen[:n]) != "older" {
		t.Errorf("who has the older transcript open reads %q", seen[:n])
	}
	link := filepath.Join(home, "link.jsonl")
	if err := errors.Join(os.Symlink(config, link)); err != nil {
		t.Fatal(err)
	}
	if out, err := inspectAt(t, append([]string{"tools", "-record", link}, child(t)...)...); err != nil {
		t.Errorf("error %v:\n%s", err, out)
	}
	if text, err := os.ReadFile(config); err != nil || !strings.Contains(string(text), "example.com") {
		t.Errorf("a transcript was written through a link: error %v, %s", err, text)
	}
}
