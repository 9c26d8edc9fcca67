package describe

import (
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

// bundleVariable matches the variables in a manifest.
var bundleVariable = regexp.MustCompile(`\$\{([^{}]*)\}`)

// folderVariables are those that applications replace, beside settings.
var folderVariables = []string{"__dirname", "HOME", "DESKTOP", "DOCUMENTS", "DOWNLOADS", "pathSeparator", "/"}

// bundle checks what a bundle restricts further.
func (c *checker) bundle(s *Server, b *Bundle) {
	name := s.shortName()
	c.require(name != "" && name[0] != '.' && name[0] != '-', "Name", "expected a letter or a digit after the slash, as it is the name of a file")
	c.require(semantic.MatchString(s.Version), "Version", `expected a semantic version, such as "1.0.2"`)
	c.require(s.Author.Name != "", "Author.Name", "expected a name")
	c.require(s.Author.Email == "" || strings.Contains(s.Author.Email, "@"), "Author.Email", "expected an address")
	c.url("Author.URL", s.Author.URL, true)
	c.names("Tools", len(s.Tools), func(i int) string { return s.Tools[i].Name })
	c.names("Prompts", len(s.Prompts), func(i int) string { return s.Prompts[i].Name })

	c.require(b.Files != nil, "Bundle.Files", "expected a file system")
	c.require(len(b.Programs) > 0, "Bundle.Programs", "expected at least one program")
	for _, system := range sortedKeys(b.Programs) {
		c.require(platforms[system] != "", "Bundle.Programs", `expected "darwin", "linux" or "windows"`)
		c.require(fs.ValidPath(b.Programs[system]), "Bundle.Programs["+system+"]", "expected a name in Files")
	}
	c.require(b.Icon == "" || fs.ValidPath(b.Icon), "Bundle.Icon", "expected a name in Files")
	c.url("Bundle.Documentation", b.Documentation, true)
	c.url("Bundle.Support", b.Support, true)
	for _, policy := range b.PrivacyPolicies {
		c.url("Bundle.PrivacyPolicies", policy, false)
	}
	c.require(len(b.Args) <= maxItems, "Bundle.Args", "expected at most %d", maxItems)
	for _, arg := range b.Args {
		c.bundleText("Bundle.Args", arg, b)
	}
	c.require(len(b.Environment) <= maxItems, "Bundle.Environment", "expected at most %d", maxItems)
	for _, name := range sortedKeys(b.Environment) {
		c.require(environmentName.MatchString(name), "Bundle.Environment", "expected names of letters, digits and underscores")
		c.bundleText("Bundle.Environment["+name+"]", b.Environment[name], b)
	}
	c.require(len(b.Settings) <= maxItems, "Bundle.Settings", "expected at most %d", maxItems)
	for _, key := range sortedKeys(b.Settings) {
		setting := b.Settings[key]
		c.setting("Bundle.Settings["+key+"]", key, &setting)
	}
}

// names checks the names of tools or prompts. There may be up to 1000.
func (c *checker) names(field string, count int, name func(i int) string) {
	const limit = 10 * maxItems
	c.require(count <= limit, field, "expected at most %d", limit)
	for i := range min(count, limit) {
		c.require(name(i) != "", field+"["+strconv.Itoa(i)+"].Name", "expected a name")
	}
}

// bundleText checks the variables in an argument or an environment variable.
func (c *checker) bundleText(field, text string, b *Bundle) {
	for _, match := range bundleVariable.FindAllStringSubmatch(text, -1) {
		key, ok := strings.CutPrefix(match[1], "user_config.")
		if ok {
			_, ok = b.Settings[key]
		} else {
			ok = slices.Contains(folderVariables, key)
		}
		c.require(ok, field, "expected only variables that are known: ${user_config.KEY} of a setting, or ${__dirname}")
	}
}

func (c *checker) setting(field, key string, s *Setting) {
	c.require(variableName.MatchString(key), field, "expected a key of letters, digits and underscores")
	c.require(slices.Contains([]string{"string", "number", "boolean", "directory", "file"}, s.Type), field+".Type",
		`expected "string", "number", "boolean", "directory" or "file"`)
	c.require(s.Title != "" && s.Description != "", field, "expected a Title and a Description")
	c.require(!s.Multiple || s.Type == "directory" || s.Type == "file", field+".Multiple", "expected directories or files")
	c.require(!s.Sensitive || s.Type == "string", field+".Sensitive", "expected a string")
	c.require(!s.Sensitive || s.Default == nil, field+".Default", "a sensitive value cannot be published")
	c.require(s.Min == nil && s.Max == nil || s.Type == "number", field, "Min and Max are for numbers")
	if s.Default == nil {
		return
	}
	var into any = new(string)
	switch {
	case s.Multiple:
		into = new([]string)
	case s.Type == "number":
		into = new(float64)
	case s.Type == "boolean":
		into = new(bool)
	}
	text, err := json.Marshal(s.Default)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	c.require(err == nil, field+".Default", "expected a value of the Type")
}
