; Kernels by hand in the form of generated ones, for tests/cuda/run.c.
target triple = "nvptx64-nvidia-cuda"

@partial = internal addrspace(3) global [2 x float] poison, align 4

; y += s * x
define ptx_kernel void @axpy(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) align 16 %y, i64 %extent, double %s) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %nctaid = call i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
  %first = mul i32 %ctaid, %ntid
  %start = add i32 %first, %tid
  %all = mul i32 %nctaid, %ntid
  %begin = zext i32 %start to i64
  %step = zext i32 %all to i64
  %factor = fptrunc double %s to float
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %extent
  br i1 %more, label %body, label %end
body:
  %xp = getelementptr float, ptr addrspace(1) %x, i64 %i
  %yp = getelementptr float, ptr addrspace(1) %y, i64 %i
  %xv = load float, ptr addrspace(1) %xp, align 4
  %yv = load float, ptr addrspace(1) %yp, align 4
  %p = fmul float %factor, %xv
  %sum = fadd float %yv, %p
  store float %sum, ptr addrspace(1) %yp, align 4
  %next = add i64 %i, %step
  br label %head
end:
  ret void
}

; out[0] = s * sum of squares of x[0 .. n), by one block of 64 threads
define ptx_kernel void @sumsq(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) noalias align 4 %out, i64 %extent, i64 %n, double %s) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %lane = and i32 %tid, 31
  %warp = lshr i32 %tid, 5
  %begin = zext i32 %tid to i64
  br label %head
head:
  %i = phi i64 [ %begin, %entry ], [ %next, %body ]
  %acc = phi float [ 0.0, %entry ], [ %sum, %body ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %reduce
body:
  %xp = getelementptr float, ptr addrspace(1) %x, i64 %i
  %xv = load float, ptr addrspace(1) %xp, align 4
  %p = fmul float %xv, %xv
  %sum = fadd float %acc, %p
  %next = add i64 %i, 64
  br label %head
reduce:
  %r16 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %acc, i32 16, i32 31)
  %a16 = fadd float %acc, %r16
  %r8 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a16, i32 8, i32 31)
  %a8 = fadd float %a16, %r8
  %r4 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a8, i32 4, i32 31)
  %a4 = fadd float %a8, %r4
  %r2 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a4, i32 2, i32 31)
  %a2 = fadd float %a4, %r2
  %r1 = call float @llvm.nvvm.shfl.sync.bfly.f32(i32 -1, float %a2, i32 1, i32 31)
  %a1 = fadd float %a2, %r1
  %slot = getelementptr [2 x float], ptr addrspace(3) @partial, i32 0, i32 %warp
  %leads = icmp eq i32 %lane, 0
  br i1 %leads, label %put, label %meet
put:
  store float %a1, ptr addrspace(3) %slot, align 4
  br label %meet
meet:
  call void @llvm.nvvm.barrier0()
  %first = icmp eq i32 %tid, 0
  br i1 %first, label %write, label %end
write:
  %v0 = load float, ptr addrspace(3) @partial, align 4
  %v1 = load float, ptr addrspace(3) getelementptr ([2 x float], ptr addrspace(3) @partial, i32 0, i32 1), align 4
  %total = fadd float %v0, %v1
  %factor = fptrunc double %s to float
  %result = fmul float %total, %factor
  store float %result, ptr addrspace(1) %out, align 4
  br label %end
end:
  ret void
}

; flag[0] = 1 when one of x is n or more
define ptx_kernel void @check(ptr addrspace(1) noalias readonly align 16 %x, ptr addrspace(1) align 4 %flag, i64 %extent, i64 %n) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %i = zext i32 %tid to i64
  %inside = icmp slt i64 %i, %extent
  br i1 %inside, label %look, label %end
look:
  %xp = getelementptr i32, ptr addrspace(1) %x, i64 %i
  %xv = load i32, ptr addrspace(1) %xp, align 4
  %wide = sext i32 %xv to i64
  %bad = icmp sge i64 %wide, %n
  br i1 %bad, label %set, label %end
set:
  store i32 1, ptr addrspace(1) %flag, align 4
  br label %end
end:
  ret void
}

; only the first half of the block comes to the barrier
define ptx_kernel void @diverges(ptr addrspace(1) %x, i64 %extent) {
entry:
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %half = icmp slt i32 %tid, 32
  br i1 %half, label %meet, label %end
meet:
  call void @llvm.nvvm.barrier0()
  br label %end
end:
  ret void
}

declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.nctaid.x()
declare float @llvm.nvvm.shfl.sync.bfly.f32(i32, float, i32, i32)
declare void @llvm.nvvm.barrier0()
