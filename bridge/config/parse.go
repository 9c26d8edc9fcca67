package config

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Parse reads a configuration file. The name is that of the file: it stands in
// errors, and its folder is what relative paths are relative to. A file has at most
// [MaxFile] bytes and [MaxServers] servers.
//
// The error tells everything that is wrong, each an *[Error]; the file is nil then.
func Parse(data []byte, name string) (*File, error) {
	if len(data) > MaxFile {
		return nil, &Error{File: name, Message: fmt.Sprintf("a configuration has at most %d bytes", MaxFile)}
	}
	f := &File{Name: name, text: bytes.Clone(bytes.TrimPrefix(data, []byte("\uFEFF")))}
	plain := plainJSON(f.text)
	if err := jsonscan.Valid(plain); err != nil {
		if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
			return nil, f.fail(syntax.Offset, "", "", "invalid JSON: "+syntax.Message, nil)
		}
		return nil, f.fail(0, "", "", "invalid JSON", err)
	}
	p := &parser{file: f}
	p.read(cursor{parser: p, raw: bytes.Trim(plain, space), at: len(plain) - len(bytes.TrimLeft(plain, space))})
	if len(p.errs) == maxReports {
		p.errs = append(p.errs, fmt.Errorf("%s: only the first %d errors are told", name, maxReports))
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return f, nil
}

// A parser reads one file.
type parser struct {
	file   *File
	folder string // where the servers are in the file, with a dot behind it, for warnings
	errs   []error
}

// wrapperNames are the members of a file that has servers in one of its members.
var wrapperNames = []string{"mcpServers", "servers", "inputs"}

// read reads the file's own value.
func (p *parser) read(c cursor) {
	if c.kind() == jsonscan.Array {
		p.list(c)
		return
	}
	members := slices.Collect(c.members("an object with the servers"))
	has := func(name string) bool {
		return slices.ContainsFunc(members, func(m member) bool { return m.name == name })
	}
	switch {
	case has("mcpServers") && has("servers"):
		c.fail(`expected "mcpServers" or "servers", found both`)
	case slices.ContainsFunc(wrapperNames, has):
		p.wrapper(members)
	default:
		p.bare(c, members)
	}
}

// wrapper reads a file whose servers are one of its members.
func (p *parser) wrapper(members []member) {
	for _, m := range members {
		switch {
		case m.name == "$schema", m.kind() == jsonscan.Null && slices.Contains(wrapperNames, m.name):
		case m.name == "inputs":
			p.inputs(m.cursor)
		case m.name == "mcpServers", m.name == "servers":
			p.folder = m.name + "."
			if m.kind() == jsonscan.Array {
				p.list(m.cursor)
			} else {
				p.table(slices.Collect(m.members("an object or an array of servers")))
			}
		default:
			m.keep(&p.file.Extra, slices.Values(wrapperNames))
		}
	}
}

// bare reads a file that is a table of servers itself.
func (p *parser) bare(c cursor, members []member) {
	members = slices.DeleteFunc(members, func(m member) bool { return m.name == "$schema" })
	for _, m := range members {
		if m.misspells(slices.Values(wrapperNames)) {
			return
		}
		if m.kind() != jsonscan.Object {
			c.fail(`expected an object with "mcpServers" or "servers", or one of servers`)
			return
		}
	}
	p.table(members)
}

// table reads servers under their names.
func (p *parser) table(members []member) {
	for _, m := range members {
		if !p.server(m.name, m.key, m.cursor, false) {
			return
		}
	}
}

// list reads servers that have a name each.
func (p *parser) list(c cursor) {
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

// server reads one server, which may have its name among its members. It returns false
// when there are too many.
func (p *parser) server(alias string, key, value cursor, named bool) bool {
	switch f := p.file; {
	case len(f.Servers) == MaxServers:
		key.fail("expected at most %d servers", MaxServers)
		return false
	case !isAlias(alias):
		key.field = ""
		key.fail("the name %s: expected 1 to %d of A–Z a–z 0–9 _ - . without __, and no _ at the end", jsonscan.Quote(alias), MaxAlias)
	case f.Server(alias) != nil:
		key.fail("a second server of the name %q", alias)
	default:
		value.server, value.field = alias, ""
		key.server, key.field = alias, ""
		f.Servers = append(f.Servers, readServer(key, value, named))
	}
	return true
}

func isAlias(text string) bool {
	return 0 < len(text) && len(text) <= MaxAlias && !strings.Contains(text, "__") && !strings.HasSuffix(text, "_") &&
		!strings.ContainsFunc(text, func(r rune) bool { return !isWord(r) && r != '-' && r != '.' })
}

// inputs reads the questions to the user.
func (p *parser) inputs(c cursor) {
	for element := range c.elements("an array of inputs") {
		if len(p.file.Inputs) == maxInputs {
			element.fail("expected at most %d inputs", maxInputs)
			return
		}
		input := &Input{}
		element.object("an object with an input", func(m member) { m.key.warn("has no meaning here") },
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
			element.fail("a second input of the id %s", jsonscan.Quote(input.ID))
		default:
			p.file.Inputs = append(p.file.Inputs, input)
		}
	}
}

// choices reads the options of an input: texts, or objects with a label and a value.
func (c cursor) choices() (all []string) {
	add := func(c cursor) { all = append(all, c.text()) }
	for option := range c.elements("an array of options") {
		if option.kind() == jsonscan.Object {
			option.object("an option", func(member) {}, field{"value", add})
		} else {
			add(option)
		}
	}
	return all
}
