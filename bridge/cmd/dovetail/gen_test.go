package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// genFolder runs dovetail gen and returns its standard error.
func genFolder(t *testing.T, line ...string) (stderr string, err error) {
	t.Helper()
	said := &output{}
	err = run(t.Context(), append([]string{"gen"}, line...), strings.NewReader(""), said, said)
	return said.String(), err
}

// shelves writes a configuration file with shelves.
func shelves(t *testing.T, path string, aliases ...string) {
	t.Helper()
	servers := make(map[string]any)
	for _, alias := range aliases {
		servers[alias] = shelfConfig()
	}
	if err := os.WriteFile(path, []byte(encoded(t, map[string]any{"mcpServers": servers})), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A folder has the modules of the servers, and of no others.
func TestGenFolder(t *testing.T) {
	for language, module := range map[string]string{"python": "mcp/%.py", "typescript": "%.ts"} {
		t.Run(language, func(t *testing.T) {
			folder := t.TempDir()
			config, out := filepath.Join(folder, "mcp.json"), filepath.Join(folder, "generated")
			file := func(alias string) string {
				return filepath.Join(out, filepath.FromSlash(strings.ReplaceAll(module, "%", alias)))
			}
			has := func(want bool, path string) {
				t.Helper()
				if _, err := os.Stat(path); (err == nil) != want {
					t.Errorf("%s: error %v", path, err)
				}
			}
			all := []string{"-lang", language, "-o", out, "-config", config}
			shelves(t, config, "one", "two")
			if said, err := genFolder(t, append(all, "-check")...); statusOf(err) != checkFailed || !strings.Contains(said, "is not up to date") {
				t.Errorf("-check before: error %v, %s", err, said)
			}
			has(false, out)
			if said, err := genFolder(t, all...); err != nil || said != "" {
				t.Errorf("error %v, %s", err, said)
			}
			if said, err := genFolder(t, append(all, "-check")...); err != nil || said != "" {
				t.Errorf("-check after: error %v, %s", err, said)
			}

			shelves(t, config, "two", "three")
			own := filepath.Join(out, "mine.py")
			if err := os.WriteFile(own, []byte("print()\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if said, err := genFolder(t, append(all, "-check")...); statusOf(err) != checkFailed || !strings.Contains(said, "belongs to no server") {
				t.Errorf("-check of a removed server: error %v, %s", err, said)
			}
			if said, err := genFolder(t, append(all, "two")...); err != nil || said != "" { // alone, the others stay
				t.Errorf("error %v, %s", err, said)
			}
			has(true, file("one"))
			has(false, file("three"))
			if said, err := genFolder(t, all...); err != nil || !strings.Contains(said, "removed "+file("one")) {
				t.Errorf("error %v, %s", err, said)
			}
			has(false, file("one"))
			has(true, file("two"))
			has(true, file("three"))
			has(true, own)

			if err := os.WriteFile(file("two"), []byte("mine\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := genFolder(t, all...); err == nil || !strings.Contains(err.Error(), "has not written it") {
				t.Errorf("a file of the user: error %v", err)
			}
			if err := os.WriteFile(config, []byte(`{"mcpServers":{"two":{"command":"/nothing"}}}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := genFolder(t, all...); statusOf(err) != unreachable {
				t.Errorf("a server that does not start: error %v", err)
			}
			has(true, file("three"))
		})
	}
	target := child(t)
	for _, test := range []struct {
		line []string
		want string
	}{
		{[]string{"-lang", "pithon", "-o", "x"}, `did you mean "python"?`},
		{[]string{"-lang", "python"}, "expected -o DIR"},
		{[]string{"-lang", "python", "-o", "x", "-package", "p"}, "-package is for Go"},
		{[]string{"-alias", "a"}, "-alias is for other languages"},
		{[]string{"-lang", "python", "-o", t.TempDir()}, "expected -alias NAME"},
		{[]string{"-lang", "python", "-o", t.TempDir(), "-alias", "a__b"}, "expected no \"__\""},
	} {
		if _, err := genFolder(t, append(test.line, target...)...); statusOf(err) != misused || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want %q", test.line, err, test.want)
		}
	}
	out := t.TempDir()
	if said, err := genFolder(t, append([]string{"-lang", "python", "-o", out, "-alias", "desk"}, target...)...); err != nil || said != "" {
		t.Errorf("error %v, %s", err, said)
	}
	if text, err := os.ReadFile(filepath.Join(out, "sync", "desk.py")); err != nil || !strings.Contains(string(text), "def greet(") {
		t.Errorf("error %v, %s", err, text)
	}
}

// interpreter returns the program that a variable names. Without it the test is skipped, and fails in CI.
func interpreter(t *testing.T, variable string) string {
	t.Helper()
	name, _, _ := strings.Cut(os.Getenv(variable), " ")
	if name == "" && os.Getenv("CI") != "" {
		t.Fatal(variable, "is not set")
	}
	if name == "" {
		t.Skip(variable, "is not set")
	}
	return name
}

// unlessRejected approves calls, except those that contain the word rejected.
func unlessRejected(ctx context.Context, prompt *approval.Prompt) error {
	if strings.Contains(string(prompt.Arguments), "rejected") {
		return prompt.Reject(ctx, "not this one")
	}
	return prompt.Accept(ctx)
}

// calls runs a program with bindings of the shelf, and checks what it has put into the file.
func (p *program) calls(t *testing.T, language, name, program string, command ...string) {
	t.Helper()
	folder := t.TempDir() // has the bindings and the program only
	if said, err := genFolder(t, "-lang", language, "-o", filepath.Join(folder, "generated"), "-config", p.path("mcp.json")); err != nil {
		t.Fatalf("error %v, %s", err, said)
	}
	for path, text := range map[string]string{name: program, "token": p.token + "\n"} {
		if err := os.WriteFile(filepath.Join(folder, path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), command[0], append(command[1:], name, p.path("file"))...)
	c.Dir = folder
	c.Env = append(os.Environ(), "DOVETAIL_URL=http://"+p.address, "DOVETAIL_TOKEN="+p.token, "PYTHONDONTWRITEBYTECODE=1")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	got := strings.Join(p.lines(t, "file"), " ")
	if want := "look look look look look look look look dictionary blocking approved file"; got != want {
		t.Errorf("the lines are %s\nwant %s", got, want)
	}
}

const pythonProgram = `
import asyncio, os, sys
from generated import GatewayError, ToolError, UnknownOutcome
from generated.mcp.shelf import drop, look, put
from generated.sync import shelf as blocking

path = sys.argv[1]

async def fails(call, kind, code=None):
    try:
        await call
    except kind as error:
        assert code is None or error.code == code, (error.code, error)
        return error
    raise AssertionError(f"no {kind}")

async def main():
    results = await asyncio.gather(*[look(path=path, text="look") for _ in range(8)])
    assert results == ["put"] * 8 and results[0].content == [{"type": "text", "text": "put"}], results
    assert await look({"path": path, "text": "dictionary"}) == "put"
    assert blocking.look(path=path, text="blocking") == "put"
    assert await put(path=path, text="approved") == "put"
    error = await fails(put(path=path, text="rejected"), GatewayError, "rejected")
    assert "not this one" in str(error), error
    await fails(drop(path=path, text="x"), GatewayError, "forbidden")
    error = await fails(look(path="/nowhere/file", text="x"), ToolError)
    assert "/nowhere/file" in str(error) and error.content, error
    await fails(look({"path": path}), TypeError)
    await fails(look({"path": path, "text": "x"}, text="y"), TypeError)
    await fails(look(path=path, text=1), ToolError)
    await fails(look(path=path, text=float("nan")), ValueError)

    del os.environ["DOVETAIL_TOKEN"]
    await fails(look(path=path, text="x"), GatewayError, "http_401")
    os.environ["DOVETAIL_TOKEN_FILE"] = "token"
    assert await look(path=path, text="file") == "put"

    # Gateways that give no answer, a part of one, or an answer without an outcome.
    for answer, kind in [
        (b"", UnknownOutcome),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", UnknownOutcome),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n \r\n", UnknownOutcome),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", UnknownOutcome),
        (b"HTTP/1.1 504 Gateway Timeout\r\n\r\n", UnknownOutcome),
        (b'HTTP/1.1 200 OK\r\n\r\n   {"success":false,"result":null,"error":"lost","is_error":false,"code":"upstream_lost","executed":"maybe"}', UnknownOutcome),
        (b'HTTP/1.1 200 OK\r\n\r\n{"success":true,"result":null,"error":null,"is_error":false}', UnknownOutcome),
        (b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"detail":"busy"}', GatewayError),
        (b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", GatewayError),
    ]:
        received = 0
        async def serve(reader, writer):
            nonlocal received
            received += 1
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
            writer.write(answer)
            writer.close()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        os.environ["DOVETAIL_URL"] = "http://127.0.0.1:%d" % server.sockets[0].getsockname()[1]
        await fails(look(path=path, text="x"), kind)
        await fails(asyncio.to_thread(blocking.look, path=path, text="x"), kind)
        assert received == 2, (answer, received)
        server.close()
    await fails(look(path=path, text="x"), GatewayError, "unreachable")
    await fails(asyncio.to_thread(blocking.look, path=path, text="x"), GatewayError, "unreachable")
    for url in ["ftp://127.0.0.1", "http://", "http://a b", "http://user:secret@127.0.0.1", "http://127.0.0.1:x", "http://127.0.0.1\r\nX: y"]:
        os.environ["DOVETAIL_URL"] = url
        error = await fails(look(path=path, text="x"), GatewayError, "misconfigured")
        assert "secret" not in str(error), error
    os.environ["DOVETAIL_URL"] = ""
    for token in ["a b", "a\r\nX: y", "\u00e9"]:
        os.environ["DOVETAIL_TOKEN"] = token
        await fails(look(path=path, text="x"), GatewayError, "misconfigured")
    os.environ["DOVETAIL_TOKEN"], os.environ["DOVETAIL_TOKEN_FILE"] = "", "nothing"
    await fails(look(path=path, text="x"), GatewayError, "misconfigured")

asyncio.run(main())
`

func TestPythonBindings(t *testing.T) {
	python := interpreter(t, "DOVETAIL_PYTHON")
	p := start(t)
	p.decide(t, unlessRejected)
	p.calls(t, "python", "program.py", pythonProgram, python, "-W", "error")
}

// documentedPrograms are those of the documentation of two systems whose agents call tools by generated functions.
var documentedPrograms = []string{`
from generated.mcp.github import star_repo
result = await star_repo(owner="datalayer", repo="ui")
print(result)
`, `
from generated.mcp.filesystem import read_file, write_file

# Read multiple files
content1 = await read_file({"path": "/tmp/file1.txt"})
content2 = await read_file({"path": "/tmp/file2.txt"})

# Process and combine
combined = content1 + "\n---\n" + content2

# Write result
await write_file({"path": "/tmp/combined.txt", "content": combined})
print(combined)
`}

// runCell runs a program as a notebook does, with await outside of functions.
const runCell = `
import ast, asyncio, sys
cell = eval(compile(sys.argv[1], "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
asyncio.run(cell)
`

// documented is the value of asServer that makes the test binary the servers in the documentation of these systems.
const documented = "documented"

func newDocumented() *server.Server {
	s := server.New(mcp.Implementation{Name: "documented", Version: "1"}, nil)
	type repo struct {
		Owner string `json:"owner"`
		Repo  string `json:"repo"`
	}
	type file struct {
		Path    string `json:"path"`
		Content string `json:"content,omitempty"`
	}
	server.AddTool(s, server.Tool{Name: "star_repo"}, func(_ context.Context, _ *server.Request, in repo) (string, error) {
		return "starred " + in.Owner + "/" + in.Repo, nil
	})
	server.AddTool(s, server.Tool{Name: "read_file"}, func(_ context.Context, _ *server.Request, in file) (string, error) {
		return "content of " + in.Path, nil
	})
	server.AddTool(s, server.Tool{Name: "write_file"}, func(_ context.Context, _ *server.Request, in file) (string, error) {
		return "written " + in.Content, nil
	})
	return s
}

// Programs of the documentation of other systems run unmodified.
func TestDocumentedPrograms(t *testing.T) {
	python := interpreter(t, "DOVETAIL_PYTHON")
	p := &program{folder: t.TempDir(), said: &output{}}
	behind := map[string]any{"command": os.Args[0], "env": map[string]string{asServer: documented, "GORACE": "atexit_sleep_ms=0"}}
	config := p.write(t, "mcp.json", encoded(t, map[string]any{"mcpServers": map[string]any{"github": behind, "filesystem": behind}}))
	p.run(t, strings.NewReader(""), []string{"serve", "-config", config, "-http", "127.0.0.1:0"})
	if said, err := genFolder(t, "-lang", "python", "-o", p.path("generated"), "-config", config); err != nil {
		t.Fatalf("error %v, %s", err, said)
	}
	want := []string{"starred datalayer/ui\n", "content of /tmp/file1.txt\n---\ncontent of /tmp/file2.txt\n"}
	for i, cell := range documentedPrograms {
		if got := p.python(t, python, "-c", runCell, cell); got != want[i] {
			t.Errorf("%s\nprints %s", cell, got)
		}
	}
}

// python runs Python in the folder of the program, with its address and token, and returns what it prints.
func (p *program) python(t *testing.T, python string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), python, args...)
	c.Dir = p.folder
	c.Env = append(os.Environ(), "DOVETAIL_URL=http://"+p.address, "DOVETAIL_TOKEN="+p.token, "PYTHONDONTWRITEBYTECODE=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// The agent in examples/agent calls three servers, and one call waits for a person.
func TestAgentExample(t *testing.T) {
	python := interpreter(t, "DOVETAIL_PYTHON")
	p := &program{folder: t.TempDir(), said: &output{}}
	const examples = "../../../examples/"
	config, err := os.ReadFile(examples + "agent/mcp.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"compose", "memory", "openapi"} {
		binary := p.path(folder + ".exe")
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-C", examples+folder, "-o", binary, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		line := `"command": "go", "args": ["run", "-C", "${workspaceFolder}/../` + folder + `", "."]`
		if !strings.Contains(string(config), line) {
			t.Fatalf("the configuration has no %s", line)
		}
		config = []byte(strings.Replace(string(config), line, `"command": `+encoded(t, binary), 1))
	}
	agent, err := os.ReadFile(examples + "agent/agent.py")
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "agent.py", string(agent))
	path := p.write(t, "mcp.json", string(config))
	p.run(t, strings.NewReader(""), []string{"serve", "-config", path, "-http", "127.0.0.1:0", "-approve", "page", "-trust", "*"})
	if said, err := genFolder(t, "-lang", "python", "-o", p.path("generated"), "-config", path); err != nil {
		t.Fatalf("error %v, %s", err, said)
	}
	for board, decided := range map[string]decision{"board: pinned\n": accept, "board: not pinned: rejected\n": reject} {
		t.Run(board, func(t *testing.T) {
			asked := p.decide(t, decided)
			got := p.python(t, python, "agent.py")
			for _, want := range []string{"time:  20", "+09:00\n", "facts: 0\n", "notes: []\n", board} {
				if !strings.Contains(got, want) {
					t.Errorf("the agent prints no %q:\n%s", want, got)
				}
			}
			if request := <-asked; request.Tool != "notes_add" || len(asked) > 0 {
				t.Errorf("the person is asked about %s, and %d times more", request.Tool, len(asked))
			}
		})
	}
}

const scriptProgram = `
import { createServer } from "node:net";
import { strict as assert } from "node:assert";
import { drop, look, put } from "./generated/shelf.ts";
import { GatewayError, ToolError, UnknownOutcome, configure } from "./generated/gateway.ts";

const path = process.argv[2]!;

async function fails(call: Promise<unknown>, kind: Function, code?: string): Promise<Error> {
  const error = await call.then(() => assert.fail("no error"), (error) => error);
  assert.ok(error instanceof kind, String(error));
  if (code !== undefined) assert.equal((error as GatewayError).code, code, String(error));
  return error;
}

const results = await Promise.all(Array.from({ length: 8 }, () => look({ path, text: "look" })));
for (const result of results) assert.deepEqual(result, { text: "put", content: [{ type: "text", text: "put" }], structured: undefined });
assert.equal((await look({ path, text: "dictionary" })).text, "put");
assert.equal((await look({ path, text: "blocking" })).text, "put");
assert.equal((await put({ path, text: "approved" })).text, "put");
assert.match((await fails(put({ path, text: "rejected" }), GatewayError, "rejected")).message, /not this one/);
await fails(drop({ path, text: "x" }), GatewayError, "forbidden");
const failed = (await fails(look({ path: "/nowhere/file", text: "x" }), ToolError)) as ToolError;
assert.ok(failed.message.includes("/nowhere/file") && failed.content.length === 1);

delete process.env["DOVETAIL_TOKEN"];
await fails(look({ path, text: "x" }), GatewayError, "http_401");
process.env["DOVETAIL_TOKEN_FILE"] = "token";
assert.equal((await look({ path, text: "file" })).text, "put");

const cases: [string, Function][] = [
  ["", UnknownOutcome],
  ["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}", UnknownOutcome],
  ["HTTP/1.1 200 OK\r\n\r\n<html>", UnknownOutcome],
  ["HTTP/1.1 504 Gateway Timeout\r\n\r\n", UnknownOutcome],
  ['HTTP/1.1 200 OK\r\n\r\n   {"success":false,"result":null,"error":"lost","is_error":false,"code":"upstream_lost","executed":"maybe"}', UnknownOutcome],
  ['HTTP/1.1 503 Service Unavailable\r\n\r\n{"detail":"busy"}', GatewayError],
  ["HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n", GatewayError],
];
for (const [answer, kind] of cases) {
  let received = 0;
  const server = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      received++;
      socket.end(answer);
    });
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const url = "http://127.0.0.1:" + (server.address() as { port: number }).port;
  configure({ url });
  await fails(look({ path, text: "x" }), kind);
  assert.equal(received, 1, answer);
  await new Promise((closed) => server.close(closed));
  await fails(look({ path, text: "x" }), GatewayError, "unreachable");
}
for (const gateway of [{ url: "nowhere" }, { url: "http://user:secret@127.0.0.1:1" }, { token: "secret\r\nX: y" }]) {
  configure(gateway);
  const error = await fails(look({ path, text: "x" }), GatewayError, "misconfigured");
  assert.ok(!error.message.includes("secret") && error.cause === undefined, error.message);
}
process.env["DOVETAIL_TOKEN_FILE"] = "nothing";
configure({});
await fails(look({ path, text: "x" }), GatewayError, "misconfigured");
`

func TestTypeScriptBindings(t *testing.T) {
	node := interpreter(t, "DOVETAIL_NODE")
	p := start(t)
	p.decide(t, unlessRejected)
	p.calls(t, "typescript", "program.mts", scriptProgram, node, "--no-warnings")
}
