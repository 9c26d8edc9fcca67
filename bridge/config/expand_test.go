package config_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/bridge/config"
	"github.com/dovetail-go/dovetail/internal/test/cputest"
)

// lookup returns a function that looks up environment variables.
func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// expandArg expands one argument.
func expandArg(t *testing.T, text string, e *config.Expander) (string, error) {
	t.Helper()
	s := &config.Server{Alias: "a", Type: "stdio", Command: "x", Args: []string{text}}
	r, err := s.Expand(t.Context(), e)
	if err != nil {
		return "", err
	}
	return r.Args[0].Reveal(), nil
}

func TestVariablesAreReplacedOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	os.WriteFile("secret", []byte("s3cret\r\n"), 0o600)
	os.WriteFile("two", []byte("1\n\n"), 0o600)
	wd, _ := os.Getwd()
	home, _ := os.UserHomeDir()
	e := &config.Expander{
		LookupEnv: lookup(map[string]string{"A": "1", "_b_2": "2", "0": "zero", "EMPTY": "", "EVIL": "${A}$${A}${env:A}", "env": "E"}),
		Resolve: func(_ context.Context, scheme, name string) (string, bool, error) {
			return scheme + "/" + name, name != "none", nil
		},
	}
	for text, want := range map[string]string{
		"":                           "",
		"plain":                      "plain",
		"${A}":                       "1",
		"x${A}y${_b_2}z":             "x1y2z",
		"${A}${A}":                   "11",
		"${0}":                       "zero",
		"${env:A}":                   "1",
		"${env}":                     "E",
		"${EMPTY}":                   "",
		"${EMPTY:-d}":                "d",
		"${A:-d}":                    "1",
		"${NO:-d}":                   "d",
		"${NO:-}":                    "",
		"${NO:-a:-b}":                "a:-b",
		"${NO:- $x y/z:1 }":          " $x y/z:1 ",
		"${env:NO:-d}":               "d",
		"${EVIL}":                    "${A}$${A}${env:A}", // a value is no text of the file
		"${NO:-$A}":                  "$A",
		"$A":                         "$A",
		"$":                          "$",
		"$$":                         "$$",
		"${":                         "${",
		"${}":                        "${}",
		"${A":                        "${A",
		"}${A}":                      "}1",
		"${foo-bar}":                 "${foo-bar}",
		"${ A }":                     "${ A }",
		"${é}":                       "${é}",
		"${A?}":                      "${A?}",
		"${A:}":                      "${A:}",
		"${A:x}":                     "${A:x}", // no scheme begins like this
		"${env:}":                    "${env:}",
		"${:-d}":                     "${:-d}",
		"${foo-${A}}":                "${foo-1}",
		"$${A}":                      "${A}",
		"$$${A}":                     "$${A}",
		"${A}$${A}${A}":              "1${A}1",
		"$${":                        "${",
		"${file:secret}":             "s3cret",
		"${file:two}":                "1\n",
		"${file:missing:-d}":         "d",
		"${file:./secret}":           "s3cret",
		"${file:" + wd + "/secret}":  "s3cret",
		"${keyring:a b/c}":           "keyring/a b/c",
		"${op:x:y}":                  "op/x:y",
		"${workspaceFolder}":         wd,
		"${workspaceFolderBasename}": filepath.Base(wd),
		"${userHome}":                home,
		"${pathSeparator}":           string(filepath.Separator),
	} {
		if got, err := expandArg(t, text, e); err != nil || got != want {
			t.Errorf("%s: got %q %v, want %q", text, got, err, want)
		}
	}
}

func TestVariablesWithoutAValue(t *testing.T) {
	_, err := one(t, `{"command":"${NO}","args":["${NO:-x}","a${NO}b"],
  "env":{"T":"${env:NO}"},"working_dir":"${file:no}"}`).Expand(t.Context(), &config.Expander{LookupEnv: lookup(nil)})
	want := strings.Join([]string{
		`mcp.json:1:31: server a: command: ${NO} has no value and no default`,
		`mcp.json:1:58: server a: args[1]: ${NO} has no value and no default`,
		`mcp.json:2:14: server a: env.T: ${env:NO} has no value and no default`,
		`mcp.json:2:41: server a: working_dir: ${file:no} has no value and no default`,
	}, "\n")
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestVariablesThatFail(t *testing.T) {
	locked := errors.New("the keyring is locked")
	e := &config.Expander{
		LookupEnv: lookup(map[string]string{"NUL": "a\x00b", "LONG": strings.Repeat("x", maxValue), "CRLF": "a\r\nX: y"}),
		Resolve:   func(context.Context, string, string) (string, bool, error) { return "", false, locked },
	}
	for server, want := range map[string]string{
		`{"command":"${keyring:x}"}`:                   `server a: command: ${keyring:x}: the keyring is locked`,
		`{"command":"${NO:-${NUL}}"}`:                  `server a: command: the default of ${NO} contains a variable: expected a text`,
		`{"command":"${keyring:a${NUL}}"}`:             `server a: command: ${keyring:a} contains a variable: expected a name`,
		`{"command":"${NO:-x${NUL}y"}`:                 `server a: command: the default of ${NO} contains a variable: expected a text`,
		`{"command":"${input:x}"}`:                     `server a: command: ${input:x}: "inputs" of the file does not have it`,
		`{"command":"x","args":["${NUL}"]}`:            `server a: args[0]: expected a text without NUL`,
		`{"command":"x","args":["${LONG}y"]}`:          `server a: args[0]: expected at most 131072 bytes after expansion`,
		`{"command":"${NO:-}"}`:                        `server a: command: expected a command, but it is empty after expansion`,
		`{"command":"x","envFile":"no"}`:               `server a: envFile: reading no: no such file`,
		`{"command":"${file:.}"}`:                      `server a: command: ${file:.}: it is not a regular file`,
		`{"url":"${NUL:-ftp}://h"}`:                    `server a: url: expected a text without NUL`,
		`{"url":"ftp://h"}`:                            `server a: url: expected a URL with http:// or https://, and a host`,
		`{"url":"http://"}`:                            `server a: url: expected a URL with http:// or https://, and a host`,
		`{"url":"/mcp"}`:                               `server a: url: expected a URL`,
		`{"url":"ws://h","type":"http"}`:               `server a: url: expected a URL with http:// or https://`,
		`{"url":"unix:///x","type":"ws"}`:              `server a: url: expected a URL with ws://, wss://, http:// or https://`,
		`{"url":"http://h","headers":{"A":"${CRLF}"}}`: `server a: headers.A: expected a value without control characters`,
	} {
		_, err := one(t, server).Expand(t.Context(), e)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "mcp.json:1:") {
			t.Errorf("%s\ngot  %v\nwant %s", server, err, want)
		}
		if strings.Contains(want, "locked") && !errors.Is(err, locked) {
			t.Error("the reason is lost")
		}
	}
	if _, err := one(t, `{"command":"${keyring:x}"}`).Expand(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "expected one of the schemes env, input and file") {
		t.Error("an unknown scheme:", err)
	}
	args := `{"command":"x","args":["${LONG}"` + strings.Repeat(`,"${LONG}"`, 20) + `]}`
	_, err := one(t, args).Expand(t.Context(), e)
	if err == nil || strings.Count(err.Error(), "1 MiB for all texts") != 1 {
		t.Errorf("many long values: %v", err)
	}
	if _, err := (&config.Server{Alias: "made"}).Expand(t.Context(), nil); err == nil || err.Error() != ": server made: expected the type stdio, http, sse or ws" {
		t.Errorf("a server without a type: %v", err)
	}
}

// Texts that are too long are not looked up, and unclosed braces take linear time.
func TestExpansionIsBounded(t *testing.T) {
	lookups := 0
	e := &config.Expander{LookupEnv: func(string) (string, bool) {
		lookups++
		return strings.Repeat("x", maxValue), true
	}}
	if _, err := expandArg(t, strings.Repeat("${A}", 100_000), e); err == nil || lookups > 10 {
		t.Errorf("%d variables are looked up: %v", lookups, err)
	}
	for _, end := range []string{"", "}"} {
		if _, err := expandArg(t, strings.Repeat("${", maxExpanded/2-1)+end, nil); err == nil {
			t.Error("a text that is too long is no error")
		}
		cputest.WantLinear(t, "unclosed braces before "+strconv.Quote(end), maxExpanded/32, func(size int) {
			_, _ = expandArg(t, strings.Repeat("${", size)+end, nil) // the short ones are valid
		})
	}
}

func TestMissingFilesAreTold(t *testing.T) {
	_, err := one(t, `{"command":"x","envFile":"no"}`).Expand(t.Context(), nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	os.Mkdir(filepath.Join(dir, ".vscode"), 0o755)
	for _, name := range []string{".vscode/token", "token"} {
		os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600)
	}
	os.WriteFile(filepath.Join(dir, ".vscode", "vars"), []byte("V=1"), 0o600)
	text := `{"servers":{"a":{"command":"${workspaceFolder}/x","args":["${file:token}"],"cwd":"sub","envFile":"vars"}}}`
	file, err := config.Parse([]byte(text), filepath.Join(dir, ".vscode", "mcp.json"))
	if err != nil {
		t.Fatal(err)
	}
	for workspace, want := range map[string]string{"": dir, "/elsewhere": "/elsewhere"} {
		r, err := file.Servers[0].Expand(t.Context(), &config.Expander{Workspace: workspace})
		if err != nil {
			t.Fatal(err)
		}
		got := []string{r.Command.Reveal(), r.Args[0].Reveal(), r.Dir.Reveal(), r.Env["V"].Reveal()}
		if diff := cmp.Diff([]string{want + "/x", ".vscode/token", want + "/sub", "1"}, got); diff != "" {
			t.Error(diff)
		}
	}
}

const withInputs = `{"inputs":[{"id":"key","password":true},{"id":"region","default":"eu"}],
  "servers":{"a":{"command":"x","args":["${input:key}","${input:region}"]},"b":{"command":"y","env":{"K":"${input:key}"}},
  "off":{"command":"z","args":["${input:region}"],"disabled":true}}}`

func TestInputsAreAskedForOnce(t *testing.T) {
	var asked []string
	e := &config.Expander{Prompt: func(_ context.Context, input config.Input) (string, error) {
		asked = append(asked, input.ID)
		return input.ID + "!", nil
	}}
	list, err := parse(t, withInputs).Expand(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0].Args[0].Reveal() != "key!" || list[0].Args[1].Reveal() != "region!" || list[1].Env["K"].Reveal() != "key!" {
		t.Error("wrong answers")
	}
	if diff := cmp.Diff([]string{"key", "region"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestInputsWithoutAUser(t *testing.T) {
	list, err := parse(t, withInputs).Expand(t.Context(), nil)
	if err == nil || strings.Count(err.Error(), "${input:key} has no value") != 2 || len(list) != 0 {
		t.Errorf("got %v %v", list, err)
	}
}

func TestOneServerThatFailsDoesNotHinderOthers(t *testing.T) {
	file := parse(t, `{"a":{"command":"${NO_SUCH_VARIABLE}"},"b":{"command":"y"}}`)
	list, err := file.Expand(t.Context(), nil)
	if err == nil || len(list) != 1 || list[0].Alias != "b" {
		t.Errorf("got %v %v", list, err)
	}
}

func TestInputsAreAskedForOnceByManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer := make(chan string)
		e := &config.Expander{Prompt: func(context.Context, config.Input) (string, error) {
			asked.Add(1)
			return <-answer, nil
		}}
		file := parse(t, withInputs)
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				r, err := file.Server("b").Expand(t.Context(), e)
				if err != nil || r.Env["K"].Reveal() != "yes" {
					t.Error(r, err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("no time"))
		if _, err := file.Server("b").Expand(ctx, e); err == nil || !strings.Contains(err.Error(), "no time") {
			t.Error("waiting does not end with its context:", err)
		}
		answer <- "yes"
		all.Wait()
		if asked.Load() != 1 {
			t.Error("asked", asked.Load(), "times")
		}
	})
}

// When a prompt is cancelled, a waiting use of the input asks again.
func TestInputsSurviveACancelledAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := true
		e := &config.Expander{Prompt: func(ctx context.Context, _ config.Input) (string, error) {
			if first {
				first = false
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "yes", nil
		}}
		file := parse(t, withInputs)
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := file.Server("b").Expand(ctx, e); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
		synctest.Wait()
		both.Go(func() {
			if _, err := file.Server("b").Expand(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		cancel()
		both.Wait()
	})
}

func TestInputsAreAskedForAgainAfterAFailure(t *testing.T) {
	asked := 0
	refused := errors.New("refused")
	e := &config.Expander{Prompt: func(context.Context, config.Input) (string, error) {
		if asked++; asked == 1 {
			return "", refused
		}
		return "yes", nil
	}}
	server := parse(t, withInputs).Server("b")
	if _, err := server.Expand(t.Context(), e); !errors.Is(err, refused) {
		t.Error(err)
	}
	if _, err := server.Expand(t.Context(), e); err != nil {
		t.Error(err)
	}
}

func TestEnvFile(t *testing.T) {
	dir := t.TempDir()
	expand := func(text string) (*config.Resolved, error) {
		path := filepath.Join(dir, ".env")
		os.WriteFile(path, []byte(text), 0o600)
		file, err := config.Parse([]byte(`{"a":{"command":"x","envFile":".env","env":{"WON":"by env"},
		  "dovetail":{"passEnv":["PASSED","A","UNSET"]}}}`), filepath.Join(dir, "mcp.json"))
		if err != nil {
			t.Fatal(err)
		}
		return file.Servers[0].Expand(t.Context(), &config.Expander{LookupEnv: lookup(map[string]string{"PASSED": "on", "A": "passed", "X": "leak"})})
	}
	r, err := expand("\uFEFF# comment\n\nA=1\nexport B = two words \r\nC=\"q \\\"x\\\" \\n\\\\n\" # c\nD='$A ${X} \\n # no'\nE=a#b # c\nF=\nG= # c\nH=${X}\nWON=no\nA=2")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, value := range r.Env {
		got[name] = value.Reveal()
	}
	want := map[string]string{"A": "2", "B": "two words", "C": "q \"x\" \n\\n", "D": `$A ${X} \n # no`, "E": "a#b", "F": "", "G": "",
		"H": "${X}", "WON": "by env", "PASSED": "on"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for text, want := range map[string]string{
		"A=1\nsecret":                        "envFile: .env: line 2: expected NAME=value",
		"=secret":                            "line 1: expected NAME=value",
		"A B=secret":                         "line 1: expected NAME=value",
		"A=\"secret":                         "line 1: expected a closing quote",
		"A='secret' more":                    "line 1: expected a closing quote",
		"A=\"secret\\\"":                     "line 1: expected a closing quote",
		"A=secret\x00":                       "line 1: expected a value without NUL",
		strings.Repeat("A=secret\n", 40_000): "longer than 262144 bytes",
	} {
		_, err := expand(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.20q: got %v", text, err)
		}
	}
}

func TestPromptEnv(t *testing.T) {
	t.Setenv("INPUT_API_KEY_2", "sesame")
	for id, want := range map[string]string{"api-key.2": "sesame", "API_KEY_2": "sesame", "other": "as ever"} {
		if got, err := config.PromptEnv(t.Context(), config.Input{ID: id, Default: "as ever"}); err != nil || got != want {
			t.Errorf("%s is %q, error %v, want %q", id, got, err, want)
		}
	}
	_, err := config.PromptEnv(t.Context(), config.Input{ID: "api-kéy"})
	if err == nil || !strings.Contains(err.Error(), "INPUT_API_K_Y") {
		t.Errorf("error = %v, want the variable's name", err)
	}
}

// NoExpand replaces nothing and refuses everything that reads this machine.
func TestNoExpand(t *testing.T) {
	t.Setenv("TOKEN", "hunter2")
	for text, wrong := range map[string]string{
		`{"command": "${TOKEN}", "args": ["${TOKEN:-x}", "$${", "${file:/etc/passwd}", "${input:x}"], "env": {"A": "${TOKEN}"}}`: "",
		`{"command": "x", "envFile": "/etc/environment"}`:                                                                        "expected no envFile",
		`{"command": "x", "dovetail": {"passEnv": ["TOKEN"]}}`:                                                                   "expected no envFile",
		`{"command": "x", "dovetail": {"inheritEnv": true}}`:                                                                     "expected no envFile",
		`{"url": "http://localhost/${TOKEN}", "headers": {"A": "${TOKEN}"}}`:                                                     "",
		`{"url": "${TOKEN}"}`: "expected a URL",
	} {
		file, err := config.Parse([]byte(`{"mcpServers": {"a": `+text+`}}`), "mcp.json")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		list, err := file.Expand(t.Context(), &config.Expander{NoExpand: true})
		if wrong != "" {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		r := list[0]
		texts := []string{r.Command.Reveal(), r.URL.Reveal(), r.Env["A"].Reveal(), r.Headers["A"].Reveal()}
		for _, arg := range r.Args {
			texts = append(texts, arg.Reveal())
		}
		all := strings.Join(texts, " ")
		if strings.Contains(all, "hunter2") || !strings.Contains(all, "${TOKEN}") || r.Args != nil && r.Args[1].Reveal() != "$${" {
			t.Errorf("%s: becomes %q", text, texts)
		}
	}
}
