package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// didYouMean returns what is added to the error of an unknown name: a question with the known name that is most similar,
// or otherwise if none is similar.
func didYouMean(name string, known []string, otherwise string) string {
	if closest := closestName(name, known); closest != "" {
		return fmt.Sprintf("; did you mean %q?", closest)
	}
	return otherwise
}

// maxCompared is the length of the longest name that is compared, in bytes. The time for a pair is its square.
const maxCompared = 200

// closestName returns the shortest name that begins with the typed three letters or more. Without one it returns the name
// with the fewest typing errors, at most one for three letters, and of these the one of the most similar length. Case
// does not matter. The part of a name after ALIAS__ counts as a name, too.
func closestName(name string, known []string) string {
	typed := strings.ToLower(name)
	if len(typed) > maxCompared {
		return ""
	}
	begun, closest, shortest, least, difference := "", "", 0, (len(typed)+1)/3, len(typed)
	for _, candidate := range slices.Sorted(slices.Values(known)) {
		if len(candidate) > maxCompared {
			continue
		}
		for _, part := range comparedParts(strings.ToLower(candidate)) {
			if len(typed) >= 3 && strings.HasPrefix(part, typed) && (begun == "" || len(part) < shortest) {
				begun, shortest = candidate, len(part)
			}
			mistakes, longer := typingErrors(typed, part), max(len(part)-len(typed), len(typed)-len(part))
			if mistakes < least || mistakes == least && longer < difference {
				closest, least, difference = candidate, mistakes, longer
			}
		}
	}
	return cmp.Or(begun, closest)
}

// comparedParts returns a name, and what follows an alias in it.
func comparedParts(name string) []string {
	if _, own, ok := strings.Cut(name, "__"); ok {
		return []string{name, own}
	}
	return []string{name}
}

// typingErrors returns the least number of letters to add, to remove, to replace, or to swap with the next one, that
// makes b of a (optimal string alignment distance).
func typingErrors(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range to {
		rows[0][j+1] = j + 1
	}
	for i, x := range from {
		for j, y := range to {
			replaced := rows[i][j]
			if x != y {
				replaced++
			}
			rows[i+1][j+1] = min(rows[i][j+1]+1, rows[i+1][j]+1, replaced)
			if i > 0 && j > 0 && x == to[j-1] && from[i-1] == y {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(from)][len(to)]
}
