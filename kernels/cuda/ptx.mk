# SPDX-License-Identifier: Apache-2.0
#
# Compiles the kernels to PTX, some of that to cubins, and packs all into one
# file:
#
#	make -f ptx.mk SRC=<top of the source> OUT=<folder> CLANG=<clang> \
#		[PTXAS=<ptxas> CUBINS="<capabilities, as 80 90>"]
#
# OUT/texts.bin begins with a line per text, its name and its bytes compressed
# and plain; an empty line; then the texts, each an xz file of its own. A cubin
# is called as its text, with the compute capability: ew1_0.90.

FLAGS = -x cuda --cuda-gpu-arch=sm_75 --cuda-device-only -nocudainc \
	-nocudalib -S -std=c++14 -O3 -ffp-contract=off -fwrapv \
	-fno-strict-aliasing -Wno-unknown-cuda-version -MD -MP \
	-I$(SRC) -I$(SRC)/include

numbers = 0 1 3 4 5 6 7 8 9 10 11 12
dtypes = $(numbers) 13 15
forms = 0 1 2

ew := $(foreach f,$(forms),$(foreach d,$(dtypes),ew$(d)_$(f)))
gather := $(foreach f,$(forms),$(foreach b,1 2 4 8,gather$(b)_$(f)))
reduce := $(foreach d,$(dtypes),reduce$(d))
scatter := $(foreach d,$(dtypes),scatter$(d))
matmul := $(foreach d,$(numbers),matmul$(d))
move := $(foreach b,1 2 4 8,move$(b))
softmax := $(foreach d,0 1 3 4,softmax$(d))
names := $(ew) $(gather) $(reduce) $(scatter) $(matmul) $(move) $(softmax)

texts := $(names:%=$(OUT)/%.ptx)

# What is beyond 2^31 elements waits a moment for PTX.
binary := $(filter-out %_2,$(names))
cubins := $(foreach c,$(CUBINS),$(binary:%=%.$(c)))
packed := $(names:%=$(OUT)/%.ptx.xz) $(cubins:%=$(OUT)/%.cubin.xz)

$(OUT)/texts.bin: $(packed) $(packed:%.xz=%) $(OUT)/packed.list
	@{ for f in $(packed); do \
		n=$${f##*/}; n=$${n%.*}; test -f $${f%.xz} || exit 1; \
		echo "$${n%.*} `wc -c < $$f` `wc -c < $${f%.xz}`"; \
	done; echo; cat $(packed); } > $@.new && mv $@.new $@

# Changes when the list does.
$(OUT)/packed.list: always
	@mkdir -p $(OUT); echo $(packed) | cmp -s - $@ || echo $(packed) > $@
.PHONY: always

%.xz: %
	@xz --format=xz --check=crc32 --lzma2=preset=9e,dict=1MiB -T1 -c $< \
		> $@.new && mv $@.new $@

define assemble
$(OUT)/%.$(1).cubin: $(OUT)/%.ptx
	@echo "  PTXAS    $$*.$(1)"
	@$(PTXAS) -arch=sm_$(1) $$< -o $$@.new && mv $$@.new $$@
endef
$(foreach c,$(CUBINS),$(eval $(call assemble,$(c))))

# compile NAME SOURCE DEFINITIONS; an operation without .rn could still be
# contracted.
define compile
$(OUT)/$(1).ptx: $(SRC)/kernels/$(2) $(SRC)/kernels/cuda/ptx.mk
	@mkdir -p $(OUT)
	@echo "  PTX      $(1)"
	@$(CLANG) $(FLAGS) $(3) -MF $(OUT)/$(1).d -MT $(OUT)/$(1).ptx \
		$(SRC)/kernels/$(2) -o $$@.new
	@if grep -Eq '(mul|add|sub)\.f(32|64)' $$@.new; then \
		echo "$$@: operations that may be contracted" >&2; exit 1; fi
	@mv $$@.new $$@
endef

number = $(subst ew,,$(firstword $(subst _, ,$(1))))
form = $(lastword $(subst _, ,$(1)))
$(foreach n,$(ew),$(eval $(call compile,$(n),kl/ew.kl,-DKL_DTYPE=$(call number,$(n)) -DKL_FORM=$(call form,$(n)))))
$(foreach n,$(gather),$(eval $(call compile,$(n),kl/gather.kl,-DKL_BYTES=$(subst gather,,$(firstword $(subst _, ,$(n)))) -DKL_FORM=$(call form,$(n)))))
$(foreach n,$(reduce),$(eval $(call compile,$(n),cuda/reduce.cu,-DKL_DTYPE=$(subst reduce,,$(n)))))
$(foreach n,$(scatter),$(eval $(call compile,$(n),cuda/scatter.cu,-DKL_DTYPE=$(subst scatter,,$(n)))))
$(foreach n,$(matmul),$(eval $(call compile,$(n),cuda/matmul.cu,-DKL_DTYPE=$(subst matmul,,$(n)))))
$(foreach n,$(move),$(eval $(call compile,$(n),cuda/move.cu,-DKL_BYTES=$(subst move,,$(n)))))
$(foreach n,$(softmax),$(eval $(call compile,$(n),cuda/softmax.cu,-DKL_DTYPE=$(subst softmax,,$(n)))))

-include $(texts:%.ptx=%.d)
.SECONDARY:
