# SPDX-License-Identifier: Apache-2.0
#
# Makes the pages of section 3 from the public headers, so that a prototype
# and what is said about it stand in one place. POSIX awk.
#
# awk -v out=DIR -v date=DATE -f gen.awk families.txt HEADER...
#
# Beside the pages it makes one link page for each function. Headers must be
# in the form that they have: a block "/** name - summary ... */" before the
# prototypes that it describes, "/* ---- Title ---- */" before each section of
# ops.h, other comments before types or on their own.

BEGIN {
	FS = "|"
	page_count = 0
	function_count = 0
	common_statuses = ""
}

# ---- families.txt ----

FILENAME ~ /families\.txt$/ {
	if ($0 ~ /^#/ || NF < 4)
		next
	pages[++page_count] = $1
	page_header[$1] = $2
	page_section[$1] = $3
	page_about[$1] = $4
	next
}

# ---- headers ----

FNR == 1 {
	header = FILENAME
	sub(/.*\//, "", header)
	page = page_of(header, "-")
	comment = ""
	mode = ""
	guard = 0
}

function page_of(name, section,   i, p) {
	for (i = 1; i <= page_count; i++) {
		p = pages[i]
		if (page_header[p] == name && (page_section[p] == "-" ||
		    index(section, page_section[p]) == 1))
			return p
	}
	return ""
}

function strip(line) {
	sub(/^ *\/\*\*? ?/, "", line)
	sub(/ *\*\/ *$/, "", line)
	sub(/^ \* ?/, "", line)
	return line
}

function end_comment() {
	mode = ""
	if (comment ~ /^---- .* ----/) {
		sub(/^---- /, "", comment)
		sub(/ ----.*/, "", comment)
		page = page_of(header, comment)
		about = comment
		comment = ""
		sub(/^[^;(]*/, "", about)
		if (about ~ /^;/) {
			sub(/^; /, "", about)
			description[page] = sentence(about)
		}
	} else if (comment ~ /^SPDX/) {
		comment = ""
	} else if (is_doc) {
		doc = comment
		comment = ""
	}
}

function sentence(text) {
	text = toupper(substr(text, 1, 1)) substr(text, 2)
	return text ~ /[.:]$/ ? text : text "."
}

# A comment that belongs to no type describes the family.
function flush_comment() {
	if (comment == "")
		return
	if (header == "ops.h" && comment ~ /^Rules that hold/)
		rules = comment
	else
		description[page] = description[page] \
			(description[page] == "" ? "" : "\n\n") comment
	comment = ""
}

function add_type(text) {
	n = ++type_count[page]
	type_text[page, n] = text
	type_about[page, n] = comment
	comment = ""
}

mode == "comment" {
	line = $0
	if (line ~ /\*\/ *$/) {
		line = strip(line)
		comment = comment (line == "" ? "" : "\n" line)
		sub(/^\n/, "", comment)
		end_comment()
	} else {
		comment = comment "\n" strip(line)
	}
	next
}

mode == "type" {
	code = code "\n" $0
	if ($0 ~ /^};/ || (is_typedef && $0 ~ /;$/)) {
		mode = ""
		add_type(code)
	}
	next
}

mode == "define" {
	code = code "\n" $0
	if ($0 !~ /\\$/)
		end_define()
	next
}

mode == "skip" {
	if ($0 ~ /^};/)
		mode = ""
	next
}

mode == "prototype" {
	proto = proto " " $0
	if ($0 ~ /;$/)
		end_prototype()
	next
}

/^\/\*/ {
	flush_comment()
	is_doc = /^\/\*\*/
	comment = strip($0)
	if ($0 ~ /\*\/ *$/)
		end_comment()
	else
		mode = "comment"
	next
}

/^#define KILN_[A-Z]+_H$/ { next }
/^#define KILN_[A-Z_]*_TABLE\(X\)/ {
	flush_comment()
	code = $0
	mode = "define"
	next
}
/^#define KILN_[A-Z_]+_\(/ { next }
/^#define KILN_/ {
	code = $0
	if ($0 ~ /\\$/)
		mode = "define"
	else
		end_define()
	next
}

# The enumerators of a table are listed from its rows.
/^enum (kiln_status|kiln_dtype) \{/ { mode = "skip"; next }

/^(struct|enum) .*\{$/ || /^typedef / {
	code = $0
	is_typedef = /^typedef /
	if (is_typedef && /;$/) {
		add_type(code)
	} else {
		mode = "type"
	}
	next
}

/^struct kiln_[a-z]+;$/ { flush_comment(); next }

/^KILN_API/ {
	flush_comment()
	proto = $0
	if ($0 ~ /;$/)
		end_prototype()
	else
		mode = "prototype"
	next
}

/^$/ {
	# A blank line after a comment parts it from what follows.
	if (comment != "")
		flush_comment()
}

function end_define(   n, i, row, field) {
	mode = ""
	if (code !~ /_TABLE\(X\)/) {
		gsub(/[ \t]+\\\n/, " \\\n", code)
		add_type(code)
		return
	}
	gsub(/\\\n/, " ", code)
	gsub(/[ \t]+/, " ", code)
	n = split(code, row, / X\(/)
	for (i = 2; i <= n; i++) {
		sub(/\) *$/, "", row[i])
		split(row[i], field, / *, */)
		table_rows[page] = table_rows[page] row[i] "\n"
		if (header == "status.h") {
			sub(/^[^"]*"/, "", row[i])
			sub(/".*/, "", row[i])
			status_text[field[1]] = row[i]
			status_order[++status_count] = field[1]
		}
	}
}

function end_prototype(   name, type, args) {
	mode = ""
	gsub(/KILN_API|KILN_MUST_CHECK/, "", proto)
	gsub(/[ \t]+/, " ", proto)
	sub(/^ /, "", proto)
	name = proto
	sub(/ *\(.*/, "", name)
	type = name
	sub(/.*[ *]/, "", name)
	type = substr(type, 1, length(type) - length(name))
	sub(/ $/, "", type)
	args = proto
	sub(/^[^(]*\(/, "", args)
	sub(/\);$/, "", args)
	function_page[name] = page
	function_type[name] = type
	function_args[name] = args
	function_doc[name] = doc_of(name, doc)
	functions[++function_count] = name
}

# The part of a block that is about one of the functions that it names.
function doc_of(name, text,   lines, n, i, mine, on, rest, named) {
	n = split(text, lines, "\n")
	on = 0
	rest = 0
	for (i = 1; i <= n; i++) {
		named = match(lines[i], /^kiln_[a-z0-9_]+ - /)
		if (named && !rest)
			on = index(lines[i], name " - ") == 1
		if (lines[i] == "" || lines[i] ~ /^@/)
			rest = 1
		if (on || rest)
			mine = mine lines[i] "\n"
	}
	return mine
}

# ---- output ----

# A paragraph needs something to stand apart from.
function put(line) {
	if (line == ".Pp" && last_put ~ /^\.(Sh|Pp|It)/)
		return
	print line >file
	last_put = line
}

function put_text_line() {
	if (line_out == "")
		return
	if (line_out ~ /^[.\047]/)
		line_out = "\\&" line_out
	put(line_out)
	line_out = ""
}

function put_word(word) {
	gsub(/\\/, "\\e", word)
	if (length(line_out) + length(word) > 76)
		put_text_line()
	line_out = line_out (line_out == "" ? "" : " ") word
}

# Splits a word in what opens, its core and what closes; 0 where it cannot.
function dissect(word, pattern) {
	opening = ""
	closing = ""
	while (word ~ /^[(\[]/) {
		opening = opening " " substr(word, 1, 1)
		word = substr(word, 2)
	}
	while (word ~ /[].,:;)]$/ && word !~ /\([0-9]?\)$/) {
		closing = " " substr(word, length(word)) closing
		word = substr(word, 1, length(word) - 1)
	}
	core = word
	return word ~ pattern
}

function put_macro(macro, text) {
	put_text_line()
	put("." macro opening " " text closing)
}

function put_function(name) {
	if (function_page[name] == page_now)
		put_macro("Fn", name)
	else
		put_macro("Xr", name " 3")
}

function put_token(word, previous,   name) {
	if (dissect(word, "^KILN_[A-Z0-9_]+$")) {
		put_macro("Dv", core)
		if (core ~ /^KILN_ERR_/)
			page_status[page_now, core] = 1
	} else if (dissect(word, "^kiln[-a-z_]*\\([1-9]\\)$")) {
		name = core
		sub(/\(.*/, "", name)
		put_macro("Xr", name " " substr(core, length(core) - 1, 1))
	} else if (previous ~ /^(enum|struct)$/) {
		put_word(word)
	} else if (dissect(word, "^kiln_[a-z0-9_]+(\\(\\))?$")) {
		name = core
		sub(/\(\)$/, "", name)
		if (name in function_page)
			put_function(name)
		else
			put_word(word)
	} else {
		put_word(word)
	}
}

function put_prose(text,   words, n, i) {
	n = split(text, words, /[ \n]+/)
	for (i = 1; i <= n; i++) {
		if (words[i] == "")
			continue
		put_token(words[i], words[i - 1])
		if (words[i] ~ /[A-Za-z0-9)\]"][.?!]$/)
			put_text_line()
	}
	put_text_line()
}

# Paragraphs parted by empty lines.
function put_paragraphs(text,   parts, n, i) {
	n = split(text, parts, /\n\n+/)
	for (i = 1; i <= n; i++) {
		if (i > 1)
			put(".Pp")
		put_prose(parts[i])
	}
}

function put_code(text,   lines, n, i) {
	put(".Bd -literal -offset indent")
	n = split(text, lines, "\n")
	for (i = 1; i <= n; i++)
		put(escaped(lines[i]))
	put(".Ed")
}

function escaped(line) {
	gsub(/\\/, "\\e", line)
	gsub(/\047/, "\\(aq", line)
	if (line ~ /^[.]/)
		line = "\\&" line
	return line
}

function put_head(   i, n, names) {
	put(".\\\" SPDX-License-Identifier: Apache-2.0")
	put(".\\\" Made by man/gen.sh from the headers.")
	put(".Dd " date)
	put(".Dt " toupper(page_now) " 3")
	put(".Os")
	put(".Sh NAME")
	n = 0
	for (i = 1; i <= function_count; i++)
		if (function_page[functions[i]] == page_now)
			names[++n] = functions[i]
	for (i = 1; i <= n; i++)
		put(".Nm " names[i] (i < n ? " ," : ""))
	put(".Nd " page_about[page_now])
}

function put_argument(text) {
	put(text ~ / / ? ".Fa \"" text "\"" : ".Fa " text)
}

function put_prototype(name,   args, n, i) {
	put(".Ft " (function_type[name] ~ / / ? "\"" function_type[name] "\"" \
		: function_type[name]))
	put(".Fo " name)
	n = split(function_args[name], args, / *, */)
	for (i = 1; i <= n; i++)
		put_argument(args[i])
	put(".Fc")
}

function put_synopsis(   i) {
	put(".Sh SYNOPSIS")
	put(".In kiln/" page_header[page_now])
	for (i = 1; i <= function_count; i++)
		if (function_page[functions[i]] == page_now)
			put_prototype(functions[i])
}

# The rows of a table: enumerators with what belongs to them.
function put_table(   rows, n, i, name, rest) {
	if (!(page_now in table_rows))
		return
	put(".Pp")
	put(".Bl -tag -width Ds -offset indent -compact")
	n = split(table_rows[page_now], rows, "\n")
	for (i = 1; i < n; i++) {
		name = rows[i]
		sub(/ *,.*/, "", name)
		rest = rows[i]
		sub(/^[^,]*, */, "", rest)
		gsub(/"/, "", rest)
		sub(/ *$/, "", rest)
		put(".It Dv " name)
		put(rest ~ /^-/ ? "\\" rest : rest)
	}
	put(".El")
}

function put_types(   i, n) {
	for (i = 1; i <= type_count[page_now]; i++) {
		if (type_about[page_now, i] != "") {
			put(".Pp")
			put_paragraphs(type_about[page_now, i])
		}
		put_code(type_text[page_now, i])
	}
}

function summary_of(name, text,   end) {
	sub(/^kiln_[a-z0-9_]+ - /, "", text)
	end = match(text, /\n(\n|@)/)
	if (end)
		text = substr(text, 1, end - 1)
	sub(/\n+$/, "", text)
	return text ~ /\.$/ ? text : text "."
}

function body_of(text,   end) {
	end = match(text, /\n(\n|@)/)
	if (!end)
		return ""
	text = substr(text, end + 1)
	sub(/^\n+/, "", text)
	sub(/\n+$/, "", text)
	return text
}

# "@name: text" up to the next one or an empty line.
function put_parameters(text,   lines, n, i, name, about) {
	n = split(text, lines, "\n")
	if (lines[1] !~ /^@/)
		return text
	put(".Bl -tag -width Ds -compact")
	for (i = 1; i <= n && lines[i] != ""; i++) {
		if (lines[i] ~ /^@/) {
			put_prose(about)
			name = substr(lines[i], 2)
			sub(/:.*/, "", name)
			put(".It Fa " name)
			about = lines[i]
			sub(/^[^:]*: */, "", about)
		} else {
			about = about " " lines[i]
		}
	}
	put_prose(about)
	put(".El")
	text = ""
	for (; i <= n; i++)
		text = text lines[i] "\n"
	sub(/^\n+/, "", text)
	sub(/\n+$/, "", text)
	return text
}

# The class of dtypes first, the contract's names last.
function put_op_body(text,   names) {
	if (match(text, /\[[a-z_0-9, \n]+\] *$/)) {
		names = substr(text, RSTART + 1)
		sub(/\].*/, "", names)
		gsub(/\n/, " ", names)
		text = substr(text, 1, RSTART - 1)
	}
	if (text ~ /^(any|number|float|integer|bool)[.;]/)
		text = "Operands: " text
	put_paragraphs(text)
	if (names != "")
		put_prose("Contract: " names ".")
}

function put_function_text(name,   text, body) {
	text = function_doc[name]
	put(".It Fn " name)
	put_prose(summary_of(name, text))
	body = body_of(text)
	if (body == "")
		return
	body = put_parameters(body)
	if (body == "")
		return
	if (text ~ /\n@/)
		put(".Pp")
	if (page_header[page_now] == "ops.h")
		put_op_body(body)
	else
		put_paragraphs(body)
}

function put_description(   i) {
	put(".Sh DESCRIPTION")
	if (page_header[page_now] == "ops.h") {
		put("The rules that all operations have in common are in")
		put(".Xr kiln-ops 7 .")
		if (description[page_now] != "")
			put(".Pp")
	}
	if (description[page_now] != "")
		put_paragraphs(description[page_now])
	put_table()
	put_types()
	put(".Pp")
	put("The functions are:")
	put(".Bl -tag -width Ds")
	for (i = 1; i <= function_count; i++)
		if (function_page[functions[i]] == page_now)
			put_function_text(functions[i])
	put(".El")
}

# How many of the page's functions can fail, or cannot.
function count_functions(can_fail,   i, name, n, fails) {
	n = 0
	for (i = 1; i <= function_count; i++) {
		name = functions[i]
		fails = function_type[name] == "enum kiln_status" &&
			name != "kiln_error_status"
		if (function_page[name] == page_now && fails == can_fail)
			n++
	}
	return n
}

function put_return_values() {
	put(".Sh RETURN VALUES")
	if (!count_functions(1)) {
		put("These functions cannot fail; what each returns is said " \
			"above.")
		return
	}
	put("Functions of type")
	put(".Vt \"enum kiln_status\"")
	put("return")
	put(".Dv KILN_OK ,")
	put("or a negative status after a failure, whose detail")
	put(".Xr kiln_error_message 3")
	put("then tells.")
	if (count_functions(0))
		put("The others cannot fail; what each returns is said above.")
}

function put_errors(   i, name, some) {
	if (page_header[page_now] == "ops.h")
		for (i = 1; i <= status_count; i++)
			if (index(common_statuses, status_order[i] " "))
				page_status[page_now, status_order[i]] = 1
	put(".Sh ERRORS")
	for (i = 1; i <= status_count; i++) {
		name = status_order[i]
		if (!((page_now, name) in page_status))
			continue
		if (!some++)
			put(".Bl -tag -width Ds")
		put(".It Bq Dv " name)
		put_prose(sentence(status_text[name]))
	}
	put(some ? ".El" : "None.")
}

function put_example(   path, line) {
	path = examples "/" page_now ".c"
	put(".Sh EXAMPLES")
	put(".Bd -literal")
	while ((getline line <path) > 0)
		if (line !~ /SPDX/)
			put(escaped(line))
	close(path)
	put(".Ed")
}

function put_see_also(   i, n, list) {
	put(".Sh SEE ALSO")
	n = 0
	for (i = 1; i <= page_count; i++)
		if (pages[i] != page_now && relates(pages[i]))
			list[++n] = pages[i] " 3"
	sort_list(list, n)
	list[++n] = "kiln 7"
	if (page_header[page_now] == "ops.h") {
		list[++n] = "kiln-corners 7"
		list[++n] = "kiln-ops 7"
	}
	for (i = 1; i <= n; i++)
		put(".Xr " list[i] (i < n ? " ," : ""))
}

# Pages about objects name each other, those about ops their neighbours.
function relates(other) {
	if (page_header[page_now] != "ops.h")
		return page_header[other] != "ops.h"
	return page_header[other] == "ops.h" || other == "kiln_tensor" ||
		other == "kiln_status"
}

function sort_list(list, n,   i, j, kept) {
	for (i = 2; i <= n; i++) {
		kept = list[i]
		for (j = i - 1; j > 0 && list[j] > kept; j--)
			list[j + 1] = list[j]
		list[j + 1] = kept
	}
}

function put_links(   i, name) {
	for (i = 1; i <= function_count; i++) {
		name = functions[i]
		if (name == function_page[name])
			continue
		file = out "/" name ".3"
		put(".so man3/" function_page[name] ".3")
		close(file)
	}
}

# The statuses of every op, from the rules at the head of ops.h.
function find_common(   at) {
	at = index(rules, "Statuses of every op")
	common_statuses = substr(rules, at)
	sub(/\n\n.*/, "", common_statuses)
	gsub(/[^A-Z_]+/, " ", common_statuses)
	common_statuses = common_statuses " "
}

function put_rules() {
	file = out "/rules.mdoc"
	page_now = ""
	put_paragraphs(rules)
	close(file)
}

END {
	find_common()
	for (p = 1; p <= page_count; p++) {
		page_now = pages[p]
		file = out "/" page_now ".3"
		put_head()
		put_synopsis()
		put_description()
		put_return_values()
		put_example()
		put_errors()
		put_see_also()
		close(file)
	}
	put_links()
	put_rules()
}
