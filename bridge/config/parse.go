package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/bridge"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Parse parses the content of a configuration file of at most 1 MiB and 256 servers. name is the path of the file, for
// errors and relative paths.
//
// The error joins an *[Error] for each mistake. If all mistakes are in the entries of servers, the
// file is returned with the error, and with the other servers. Otherwise the file is nil.
//
// The alias of a server is its name in the file. A name that is not a valid alias gets an alias of its permitted
// characters, and a [Warning]: "Sequential Thinking" becomes Sequential-Thinking, and my__srv becomes my_srv. If
// another server has that alias, a digest of the name follows it.
func Parse(data []byte, name string) (*File, error) {
	if len(data) > maxFile {
		return nil, &Error{File: name, Message: fmt.Sprintf("a configuration has at most %d bytes", maxFile)}
	}
	f := &File{Name: name, text: bytes.Clone(bytes.TrimPrefix(data, []byte("\uFEFF")))}
	plain := plainJSON(f.text)
	if err := jsonscan.Valid(plain); err != nil {
		if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
			return nil, f.newError(syntax.Offset, "", "", "invalid JSON: "+syntax.Message, nil)
		}
		return nil, f.newError(0, "", "", "invalid JSON", err)
	}
	p := &parser{file: f, dialect: wrappers[0].dialect}
	p.read(cursor{parser: p, raw: bytes.Trim(plain, space), at: len(plain) - len(bytes.TrimLeft(plain, space))})
	if len(p.errs) == maxReports {
		p.errs = append(p.errs, fmt.Errorf("%s: only the first %d errors are reported", name, maxReports))
	}
	if p.failures > p.serverFailures {
		return nil, errors.Join(p.errs...)
	}
	return f, errors.Join(p.errs...)
}

// A parser reads one file.
type parser struct {
	file    *File
	dialect dialect
	prefix  string // of the servers' paths in warnings: "servers." or ""
	errs    []error

	failures       int             // all errors, also those that errs does not contain
	serverFailures int             // those in entries of servers
	names          map[string]bool // the names of servers that are aliases
	aliases        map[string]bool // the aliases so far
}

// read reads the top-level value.
func (p *parser) read(c cursor) {
	if c.kind() == jsonscan.Array {
		p.list(c)
		return
	}
	members := slices.Collect(c.members("an object with the servers"))
	has := func(name string) bool {
		return slices.ContainsFunc(members, func(m member) bool { return m.name == name })
	}
	var found []wrapper
	for _, w := range wrappers {
		i := slices.IndexFunc(members, func(m member) bool { return m.name == w.name })
		// Gemini CLI has other settings in "mcp", beside "mcpServers". A server may have the name mcp.
		if i < 0 || w.name == "mcp" && (has("mcpServers") || members[i].isServer()) {
			continue
		}
		found = append(found, w)
	}
	switch {
	case len(found) > 1:
		c.fail("expected %q or %q, found both", found[0].name, found[1].name)
	case len(found) == 1:
		p.wrapper(&found[0], members)
	case has("inputs"):
		p.wrapper(&wrapper{}, members)
	default:
		p.bare(c, members)
	}
}

// wrapper reads a file whose servers are in one of its members.
func (p *parser) wrapper(w *wrapper, members []member) {
	p.dialect = w.dialect
	for _, m := range members {
		switch isServers := m.name == w.name; {
		case m.name == "$schema", m.kind() == jsonscan.Null && (isServers || m.name == "inputs"):
		case m.name == "inputs":
			p.inputs(m.cursor)
		case isServers && m.name == "mcp" && p.isVSCode(m.cursor):
			p.prefix += "mcp."
			p.wrapper(&wrappers[1], slices.Collect(m.members("an object")))
			p.dialect = w.dialect
		case isServers:
			p.prefix += m.name + "."
			p.dialect.dollar = m.name == "mcpServers" && p.isGemini(m.cursor)
			if m.kind() == jsonscan.Array {
				p.list(m.cursor)
			} else {
				p.table(slices.Collect(m.members("an object or an array of servers")))
			}
		case w.dialect.others:
			m.misspells(wrapperNames)
		default:
			m.keep(&p.file.Extra, wrapperNames)
		}
	}
}

// wrapperNames ranges over the members that are read.
func wrapperNames(yield func(name string) bool) {
	for _, w := range wrappers {
		if !yield(w.name) {
			return
		}
	}
	yield("inputs")
}

// isServer reports whether a value has a command or an address. A server may have such a name, and is an object.
func (c cursor) isServer() bool {
	return c.has(func(kind jsonscan.Kind) bool { return kind == jsonscan.String || kind == jsonscan.Array })
}

// isProgram reports whether a value has a member for a command or an address, of any kind.
func (c cursor) isProgram() bool {
	return c.has(func(kind jsonscan.Kind) bool { return kind != jsonscan.EOF && kind != jsonscan.Null })
}

// has reports whether an object has a command or an address of a kind.
func (c cursor) has(kind func(jsonscan.Kind) bool) bool {
	if c.kind() != jsonscan.Object {
		return false
	}
	members, err := jsonscan.ReadObject(c.raw)
	return err == nil && slices.ContainsFunc([]string{"command", "url", "httpUrl", "serverUrl"}, func(name string) bool {
		return kind(jsonscan.KindOf(members.Get(name)))
	})
}

// isVSCode reports whether "mcp" is a setting of VS Code, which has "servers" in it.
func (p *parser) isVSCode(c cursor) bool {
	if c.kind() != jsonscan.Object {
		return false
	}
	members, err := jsonscan.ReadObject(c.raw)
	if err != nil || jsonscan.KindOf(members.Get("servers")) != jsonscan.Object {
		return false
	}
	servers, err := jsonscan.ReadObject(members.Get("servers"))
	return err == nil && jsonscan.KindOf(servers.Get("type")) != jsonscan.String // then it is a server of this name
}

// bare reads a file whose members are servers.
func (p *parser) bare(c cursor, members []member) {
	members = slices.DeleteFunc(members, func(m member) bool { return m.name == "$schema" })
	for _, m := range members {
		if m.misspells(wrapperNames) {
			return
		}
		if m.kind() != jsonscan.Object {
			c.fail(`expected an object with "mcpServers", "servers", "mcp" or "context_servers", or one of servers`)
			return
		}
	}
	p.table(members)
}

// table reads servers that are members of an object.
func (p *parser) table(members []member) {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.name
	}
	p.reserve(names)
	for _, m := range members {
		if !p.server(m.name, m.key, m.cursor, false) {
			return
		}
	}
}

// list reads servers that are elements of an array.
func (p *parser) list(c cursor) {
	var names []string
	for element := range c.elements("an array of servers") {
		if members, err := jsonscan.ReadObject(element.raw); err == nil && jsonscan.KindOf(members.Get("name")) == jsonscan.String {
			names = append(names, jsonscan.Unquote(members.Get("name")))
		}
	}
	p.reserve(names)
	for element := range c.elements("an array of servers") {
		members, err := jsonscan.ReadObject(element.raw)
		switch name := members.Get("name"); {
		case !element.is(jsonscan.Object, "an object with a server"):
		case err != nil:
			element.fail("%v", err)
		case jsonscan.KindOf(name) != jsonscan.String:
			element.fail(`expected a member "name" with a string`)
		case !p.server(jsonscan.Unquote(name), element, element, true):
			return
		}
	}
}

// reserve notes which names are aliases, so that no other server gets them.
func (p *parser) reserve(names []string) {
	p.names, p.aliases = make(map[string]bool), make(map[string]bool)
	for _, name := range names {
		if bridge.CheckAlias(name) == nil {
			p.names[name] = true
		}
	}
}

// server reads one server. hasName says that the object may have a member "name". server
// returns false if there are too many servers.
func (p *parser) server(name string, key, value cursor, hasName bool) bool {
	f := p.file
	if len(p.aliases) == maxServers {
		key.fail("expected at most %d servers", maxServers)
		return false
	}
	before := p.failures
	alias := p.alias(name)
	switch err := bridge.CheckAlias(alias); {
	case err != nil:
		key.field = ""
		key.fail("%v", err)
	case p.aliases[alias]:
		key.fail("a second server with the alias %q", alias)
	default:
		p.aliases[alias] = true
		value.server, value.field = alias, ""
		key.server, key.field = alias, ""
		if p.dialect.plugins && value.kind() == jsonscan.Object && !value.isProgram() {
			key.field = "source"
			key.warn("is an extension of the host: the server is not used")
			break
		}
		s := readServer(key, value, hasName)
		s.Name = name
		if alias != name {
			key.field = "name"
			key.warn("is %.100q: the alias is %s", name, alias)
		}
		if p.failures == before {
			f.Servers = append(f.Servers, s)
		}
	}
	p.serverFailures += p.failures - before
	return true
}

func (p *parser) inputs(c cursor) {
	for element := range c.elements("an array of inputs") {
		if len(p.file.Inputs) == maxInputs {
			element.fail("expected at most %d inputs", maxInputs)
			return
		}
		input := &Input{}
		element.object("an object with an input", func(m member) { m.key.warn("is unknown and has no effect") },
			into("id", &input.ID, cursor.text),
			into("type", &input.Type, cursor.text),
			into("description", &input.Description, cursor.text),
			into("default", &input.Default, cursor.text),
			into("password", &input.Password, cursor.flag),
			into("options", &input.Options, cursor.choices),
		)
		switch {
		case element.kind() != jsonscan.Object:
		case input.ID == "":
			element.fail(`expected a member "id"`)
		case p.file.input(input.ID) != nil:
			element.fail("a second input with the id %s", jsonscan.Quote(input.ID))
		default:
			p.file.Inputs = append(p.file.Inputs, input)
		}
	}
}

// choices reads the options of an input: strings, or objects with a label and a value.
func (c cursor) choices() (all []string) {
	add := func(c cursor) { all = append(all, c.text()) }
	for option := range c.elements("an array of options") {
		if option.kind() == jsonscan.Object {
			option.object("an option", func(member) {}, memberReader{"value", add})
		} else {
			add(option)
		}
	}
	return all
}

const space = " \t\r\n"

// plainJSON returns the text with comments and trailing commas replaced by spaces, so that
// offsets stay valid. Other mistakes are left to the scanner.
func plainJSON(text []byte) []byte {
	plain := bytes.Clone(text)
	last := byte('[') // the last byte outside white space and comments
	trailing := -1    // the offset of a comma after a value, until something else follows it
	var end int
	for i := 0; i < len(plain); i = end {
		c := plain[i]
		switch end = commentEnd(plain, i); {
		case end < 0:
			return plain
		case end > i:
			copy(plain[i:end], bytes.Repeat([]byte(" "), end-i))
			continue
		}
		end = i + 1
		switch {
		case strings.IndexByte(space, c) >= 0:
			continue
		case (c == ']' || c == '}') && trailing >= 0:
			plain[trailing] = ' '
		case c == '"':
			n := stringEnd(plain[i:])
			if n == 0 {
				return plain
			}
			end = i + n
		}
		trailing = -1
		if c == ',' && strings.IndexByte("[{:,", last) < 0 {
			trailing = i
		}
		last = c
	}
	return plain
}

// commentEnd returns the offset after the comment at i, i if there is no comment, or -1 if
// it is not closed.
func commentEnd(text []byte, i int) int {
	rest := text[i:]
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		return i + len(line)
	case bytes.HasPrefix(rest, []byte("/*")):
		if n := bytes.Index(rest[2:], []byte("*/")); n >= 0 {
			return i + 2 + n + 2
		}
		return -1
	}
	return i
}

// stringEnd returns the length of the double-quoted string at the start of the text, or 0 if
// it is not closed.
func stringEnd(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}
