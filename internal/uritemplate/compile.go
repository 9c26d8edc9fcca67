package uritemplate

import (
	"fmt"
	"strings"
)

// Matcher compiles the template for matching. The package documentation lists the expressions
// that can be matched. The error is an [*UnmatchableError] that names the first other one.
func (t *Template) Matcher() (*Matcher, error) {
	c := compiler{seen: make(map[string]bool)}
	c.query.constants = make(map[string]int)
	c.query.variables = make(map[string]queryVariable)
	for _, p := range t.parts {
		if reason := c.add(p); reason != "" {
			return nil, &UnmatchableError{Text: p.text, Reason: reason}
		}
	}
	c.endParameter()
	c.endPath()
	return &c.Matcher, nil
}

// A compiler builds a Matcher part by part. Its methods return the reason why a part cannot be
// matched, or "".
type compiler struct {
	Matcher
	section   section
	seen      map[string]bool // names of variables
	literal   string          // path: text since the last variable
	pathEnded bool            // path: the last variable was exploded, so the path must end
	parameter string          // query: literal text since the last "&"
	assigned  bool            // query: a variable followed the last "&"
}

type section uint8

const (
	inPath section = iota
	inQuery
	inFragment
)

func (c *compiler) add(p part) string {
	if c.section == inFragment {
		return "nothing can be matched after a fragment"
	}
	if p.variables == nil {
		return c.addLiteral(p.text)
	}
	for _, v := range p.variables {
		if c.seen[v.name] {
			return fmt.Sprintf("variable %q is used twice; matching takes each once", v.name)
		}
		c.seen[v.name] = true
		if v.prefix {
			return "a value cannot be found from its prefix; matching takes variables without \":\""
		}
	}
	switch p.operator {
	case '#':
		return c.addFragment(p)
	case '?':
		if c.section == inQuery {
			return "the query has begun already; {&x} continues it"
		}
		return c.addParameters(p)
	case '&':
		if c.section == inPath {
			return "there is no query to continue; {?x} begins it"
		}
		return c.addParameters(p)
	case ';':
		return "parameters in a path cannot be matched; {?x} makes them a query"
	}
	if c.section == inQuery {
		return c.addAssigned(p)
	}
	return c.addPath(p)
}

func (c *compiler) addLiteral(text string) string {
	text, ok := canonical(text)
	if !ok {
		return "percent-encoding that is not UTF-8 cannot be matched"
	}
	if strings.Contains(text, "#") {
		return "a fixed fragment cannot be matched; {#x} takes any"
	}
	if c.section == inPath {
		before, after, found := strings.Cut(text, "?")
		if c.pathEnded && before != "" {
			return "an exploded variable must be the last thing in a path"
		}
		c.literal += before
		if !found {
			return ""
		}
		c.section, text = inQuery, after
	}
	for i, piece := range strings.Split(text, "&") {
		if i > 0 {
			c.endParameter()
		}
		if c.assigned && piece != "" {
			return "a variable must be the whole value of its query parameter: name={x}"
		}
		c.parameter += piece
	}
	return ""
}

func (c *compiler) addPath(p part) string {
	first, separator := "", ","
	if p.operator == '.' || p.operator == '/' {
		first, separator = string(p.operator), string(p.operator)
	}
	for _, v := range p.variables {
		if c.pathEnded {
			return "an exploded variable must be the last thing in a path"
		}
		if v.explode && p.operator == '.' {
			return "exploded labels cannot be matched; {.x,y} names each"
		}
		c.literal += first
		first = separator
		n := len(c.path.variables)
		if n > 0 && c.literal == "" {
			return fmt.Sprintf("there must be text between variables %q and %q", c.path.variables[n-1].name, v.name)
		}
		crosses := p.operator == '+' || v.explode
		if crosses {
			if n > 0 && c.path.variables[c.path.pivot].crosses {
				return fmt.Sprintf("variables %q and %q may both cross \"/\"; in a path one can", c.path.variables[c.path.pivot].name, v.name)
			}
			c.path.pivot = n
		}
		c.path.literals = append(c.path.literals, c.literal)
		c.path.variables = append(c.path.variables, pathVariable{v.name, crosses, v.explode && p.operator == '/'})
		c.variables++
		c.literal, c.pathEnded = "", v.explode
	}
	return ""
}

func (c *compiler) endPath() {
	p := &c.path
	p.literals = append(p.literals, c.literal)
	p.foldedLength = foldedLength(p.literals[0])
	if n := len(p.variables); n > 0 && !p.variables[p.pivot].crosses {
		p.pivot = n - 1
	}
}

// addParameters adds the variables of {?x,y} or {&x,y}.
func (c *compiler) addParameters(p part) string {
	c.section = inQuery
	for _, v := range p.variables {
		c.endParameter()
		parameter, ok := canonical(v.name)
		if !ok {
			return "percent-encoding that is not UTF-8 cannot be matched"
		}
		if reason := c.addParameter(parameter, v); reason != "" {
			return reason
		}
	}
	return ""
}

// addAssigned adds the variable of name={x}.
func (c *compiler) addAssigned(p part) string {
	parameter, ok := strings.CutSuffix(c.parameter, "=")
	v := p.variables[0]
	if !ok || c.assigned || len(p.variables) > 1 || v.explode || p.operator == '.' || p.operator == '/' || strings.Contains(parameter, "=") {
		return "in a query, matching takes {?x}, {&x} and name={x}"
	}
	return c.addParameter(parameter, v)
}

func (c *compiler) addParameter(parameter string, v variable) string {
	if _, twice := c.query.variables[parameter]; twice {
		return fmt.Sprintf("query parameter %q is used twice; matching takes each once", parameter)
	}
	c.query.variables[parameter] = queryVariable{v.name, c.variables, v.explode}
	c.variables++
	c.parameter, c.assigned = "", true
	return ""
}

// endParameter completes a parameter of the template. A parameter without a variable is a constant.
func (c *compiler) endParameter() {
	if _, twice := c.query.constants[c.parameter]; !twice && c.parameter != "" {
		c.query.constants[c.parameter] = len(c.query.constants)
	}
	c.parameter, c.assigned = "", false
}

func (c *compiler) addFragment(p part) string {
	if len(p.variables) > 1 || p.variables[0].explode {
		return "matching takes one variable for the whole fragment: {#x}"
	}
	c.section = inFragment
	c.fragment = p.variables[0].name
	c.variables++
	return ""
}
