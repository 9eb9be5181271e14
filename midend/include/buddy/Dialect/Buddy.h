//===- Buddy.h - the buddy dialect ------------------------------*- C++ -*-===//
//
// Ops and attributes declared in BuddyOps.td, and the names of the discardable
// attributes that the phases hand to each other.
//
//===----------------------------------------------------------------------===//

#ifndef BUDDY_DIALECT_BUDDY_H
#define BUDDY_DIALECT_BUDDY_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "buddy/Dialect/BuddyDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "buddy/Dialect/BuddyAttrs.h.inc"
#define GET_OP_CLASSES
#include "buddy/Dialect/BuddyOps.h.inc"

namespace buddy {

/// Unit attribute of a function that becomes an exported entry point.
inline constexpr llvm::StringLiteral kEntryAttr = "buddy.entry";
/// Unit attribute of an entry point that may copy weights and states whole.
inline constexpr llvm::StringLiteral kMayCopyAttr = "buddy.may_copy";
/// Argument attributes: role, name, offset in the weights file, symbolic shape.
inline constexpr llvm::StringLiteral kKindAttr = "buddy.kind";
inline constexpr llvm::StringLiteral kNameAttr = "buddy.name";
inline constexpr llvm::StringLiteral kWeightOffsetAttr = "buddy.weight_offset";
/// Weight argument attributes: the format its values may be stored in ("q4_0",
/// "q4_1", "q8_0"; "plain": as they are, but anywhere), and the PackingAttr or
/// PanelsAttr once a pass has settled how they lie.
inline constexpr llvm::StringLiteral kFormatAttr = "buddy.format";
inline constexpr llvm::StringLiteral kPlainFormat = "plain";
inline constexpr llvm::StringLiteral kPackingAttr = "buddy.packing";
inline constexpr llvm::StringLiteral kShapeAttr = "buddy.shape";
/// Op attribute: path of the module (a layer) the op was traced from.
inline constexpr llvm::StringLiteral kModuleAttr = "buddy.module";
/// Unit attribute of a check whose failure ends the call at once.
inline constexpr llvm::StringLiteral kPreconditionAttr = "buddy.precondition";
/// Module attribute: TargetAttr.
inline constexpr llvm::StringLiteral kTargetAttr = "buddy.target";
/// Module attribute: the last phase of the pipeline that ran, by name.
inline constexpr llvm::StringLiteral kPhaseAttr = "buddy.phase";
/// Op attribute: ScheduleAttr.
inline constexpr llvm::StringLiteral kScheduleAttr = "buddy.schedule";
/// Op attribute: WindowsAttr.
inline constexpr llvm::StringLiteral kWindowsAttr = "buddy.windows";

/// The `buddy_element` (buddy/Runtime/Array.h) of a type, if there is one.
std::optional<int64_t> libraryElement(mlir::Type type);

/// The dialect, and how its ops with a destination are bufferized.
void registerBuddyDialect(mlir::DialectRegistry &registry);
/// How the dialect's ops on tensors become ops on buffers.
void registerBufferizationModels(mlir::DialectRegistry &registry);

} // namespace buddy

#endif // BUDDY_DIALECT_BUDDY_H
