# SPDX-License-Identifier: Apache-2.0
# Completes the text of a module (spirv-dis): no operation on floats may be
# contracted, unless fuse is set, and signed zeros, infinities and NaN stay what
# they are. Names and sources, which only a debugger reads, are left out.
/^ *Op(Name|MemberName|Source|SourceExtension|String|Line|NoLine)/ { next }
{ line[++lines] = $0 }
/OpTypeFloat 32/ { width[32] = 1 }
/OpTypeFloat 64/ { width[64] = 1 }
/ = Op(FAdd|FSub|FMul|FDiv|FNegate|FRem|FMod) / { contract[$1] = 1 }
/OpDecorate %[^ ]* NoContraction/ { done[$2] = 1 }
/OpEntryPoint/ && match($0, /%[A-Za-z0-9_]+/) {
	entry = substr($0, RSTART, RLENGTH)
}
END {
	for (i = 1; i <= lines; i++) {
		if (!capable && line[i] ~ /OpCapability/) {
			capable = 1
			print "OpCapability SignedZeroInfNanPreserve"
		}
		if (!modes && line[i] ~ /OpExecutionMode /) {
			modes = 1
			for (w in width)
				printf "OpExecutionMode %s %s %d\n", entry,
					"SignedZeroInfNanPreserve", w
		}
		if (!marks && line[i] ~ /OpDecorate|OpMemberDecorate/) {
			marks = 1
			for (id in contract)
				if (!fuse && !(id in done))
					printf "OpDecorate %s NoContraction\n",
						id
		}
		print line[i]
	}
}
