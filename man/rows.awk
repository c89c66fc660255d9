# SPDX-License-Identifier: Apache-2.0
#
# Makes lists for the pages of section 7 from the tables of the source:
# kernels/ops.def (kind=ops) or base/options.def (kind=options). POSIX awk.
#
# Prints mdoc. A row may go over several lines; texts are strings of C.

function class_text(letter) {
	if (letter == "F")
		return "float"
	if (letter == "N")
		return "float and integer"
	if (letter == "I")
		return "integer"
	if (letter == "B")
		return "bool"
	return "any dtype"
}

# The string literals of a row, joined.
function strings(row,   text) {
	while (match(row, /"[^"]*"/)) {
		text = text substr(row, RSTART + 1, RLENGTH - 2)
		row = substr(row, RSTART + RLENGTH)
	}
	return text
}

function put(text) {
	gsub(/\\/, "\\e", text)
	print text ~ /^[.\047]/ ? "\\&" text : text
}

function begin(title) {
	if (open_list)
		print ".El"
	print ".Ss " title
	print ".Bl -tag -width Ds -compact"
	open_list = 1
}

function end_sentence(text) {
	return text ~ /\.$/ ? text : text "."
}

function title_of(form) {
	if (form ~ /^EW/)
		return "Elementwise"
	if (form == "CMP" || form == "PRED")
		return "Elementwise, with a bool as the result"
	if (form == "REDUCE")
		return "Reductions"
	return "Shapes, indices and the rest"
}

# What a bound of so many units is of; begins after "place".
function units_text(growth) {
	if (growth == "PROD")
		return "\nfor each element that goes into the result"
	if (growth == "SUM")
		return "\nof the sum of the magnitudes,\n" \
			"times 1 + log2 of the number of summands"
	if (growth == "DOT")
		return "\nof the sum of the magnitudes,\n" \
			"times the number of summands"
	if (growth == "SHARE")
		return ",\ntimes 1 + log2 of the length of the axis"
	if (growth == "LOG")
		return "\nof 1 and of the result,\n" \
			"times 1 + log2 of the length of the axis"
	return ""
}

function op_row(row,   form, head, field, n, doc, title) {
	doc = strings(row)
	if (doc ~ /\(tests\)/)
		return
	form = row
	sub(/^KILNI_/, "", form)
	sub(/\(.*/, "", form)
	head = row
	sub(/^[^(]*\(/, "", head)
	sub(/, *".*/, "", head)
	n = split(head, field, / *, */)
	title = title_of(form)
	if (title != last_title)
		begin(title)
	last_title = title
	print ".It " field[2]
	put(end_sentence(doc))
	if (n > 2)
		print "Operands: " class_text(field[3]) "."
	if (n > 3 && field[4] > 0)
		print "Error: at most " field[4] " units in the last place" \
			units_text(field[5]) "."
}

function option_row(row,   field, head, low, high, text) {
	head = row
	sub(/^[^"]*"/, "", head)
	text = head
	sub(/".*/, "", head)
	sub(/^[^"]*", */, "", text)
	split(text, field, / *, */)
	low = field[3]
	high = field[4]
	sub(/u$/, "", high)
	print ".It Ev " head
	put(toupper(substr(strings(text), 1, 1)) \
		substr(end_sentence(strings(text)), 2))
	if (field[2] == "NUMBER")
		print "A number in " low ".." high "."
	if (field[2] == "BYTES" || field[2] == "SHARE")
		print "A number of bytes in " low ".." high \
			", or one with a suffix K, M, G or T" \
			(field[2] == "BYTES" ? "." : \
			 ", or a fraction of the device's memory such as 0.15.")
	if (field[1] == "DEVICE")
		print "Also an option of a device."
}

function end_row() {
	gsub(/[ \t\n]+/, " ", row)
	if (kind == "ops")
		op_row(row)
	else
		option_row(row)
	row = ""
}

/^KILNI_[A-Z0-9]+\(/ { row = "" ; on = 1 }

on {
	row = row " " $0
	sub(/^ /, "", row)
	if ($0 ~ /\)$/) {
		on = 0
		end_row()
	}
}

END {
	if (open_list)
		print ".El"
}
