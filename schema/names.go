package schema

import (
	"path"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// shortName is the name of a type without packages: Page[shop.Item] is
// PageItem.
func shortName(t reflect.Type) string {
	var name strings.Builder
	for _, word := range strings.FieldsFunc(t.Name(), func(r rune) bool { return strings.ContainsRune("[], *·{};\"", r) }) {
		// Type arguments are written with the full path of their package.
		word = word[strings.LastIndexByte(word, '.')+1:]
		for i, r := range word {
			if i == 0 && name.Len() > 0 {
				r = unicode.ToUpper(r)
			}
			if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '_' {
				name.WriteRune(r)
			}
		}
	}
	return name.String()
}

// uniqueNames gives each type a name of its own, as short as may be: the name
// of the type, or with the name of the package in front where types of one name
// come from several, or with a number behind.
func uniqueNames(types []reflect.Type) []string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = shortName(t)
	}
	short := count(names)
	for i, t := range types {
		if short[names[i]] > 1 && t.PkgPath() != "" {
			names[i] = path.Base(t.PkgPath()) + "." + names[i]
		}
	}
	taken := map[string]bool{}
	for i, name := range names {
		for n := 2; taken[names[i]]; n++ {
			names[i] = name + strconv.Itoa(n)
		}
		taken[names[i]] = true
	}
	return names
}

func count(names []string) map[string]int {
	counts := map[string]int{}
	for _, name := range names {
		counts[name]++
	}
	return counts
}
