#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/errors.h"
#include "common/hash.h"
#include "common/push.h"
#include "common/spec.h"

namespace nb = nanobind;

namespace flota {

void bind_specs(nb::module_& module) {
  nb::enum_<RuleKind>(module, "RuleKind")
      .value("sgd", RuleKind::kSgd)
      .value("momentum", RuleKind::kMomentum)
      .value("adagrad", RuleKind::kAdagrad)
      .value("rmsprop", RuleKind::kRmsProp)
      .value("adam", RuleKind::kAdam)
      .value("adamw", RuleKind::kAdamW)
      .value("adamax", RuleKind::kAdamax)
      .value("lamb", RuleKind::kLamb)
      .value("ftrl", RuleKind::kFtrl)
      .value("paddle_rmsprop", RuleKind::kPaddleRmsProp)
      .value("paddle_adamax", RuleKind::kPaddleAdamax)
      .value("lazy_adam", RuleKind::kLazyAdam);
  nb::enum_<StepSource>(module, "StepSource").value("row", StepSource::kRow).value("push", StepSource::kPush);
  nb::enum_<InitKind>(module, "InitKind")
      .value("constant", InitKind::kConstant)
      .value("uniform", InitKind::kUniform)
      .value("normal", InitKind::kNormal)
      .value("truncated_normal", InitKind::kTruncatedNormal)
      .value("xavier_uniform", InitKind::kXavierUniform);
  nb::enum_<Storage>(module, "Storage")
      .value("float32", Storage::kFloat32)
      .value("float16", Storage::kFloat16)
      .value("bfloat16", Storage::kBFloat16);
  nb::enum_<TableKind>(module, "TableKind").value("sparse", TableKind::kSparse).value("dense", TableKind::kDense);
  nb::enum_<PushKind>(module, "PushKind")
      .value("gradient", PushKind::kGradient)
      .value("delta", PushKind::kDelta)
      .value("assign", PushKind::kAssign);

  nb::class_<RuleSpec>(module, "RuleSpec")
      .def(nb::init<>())
      .def_rw("kind", &RuleSpec::kind)
      .def_rw("steps", &RuleSpec::steps)
      .def_rw("lr", &RuleSpec::lr)
      .def_rw("weight_decay", &RuleSpec::weight_decay)
      .def_rw("momentum", &RuleSpec::momentum)
      .def_rw("dampening", &RuleSpec::dampening)
      .def_rw("beta1", &RuleSpec::beta1)
      .def_rw("beta2", &RuleSpec::beta2)
      .def_rw("epsilon", &RuleSpec::epsilon)
      .def_rw("alpha", &RuleSpec::alpha)
      .def_rw("lr_decay", &RuleSpec::lr_decay)
      .def_rw("initial_accumulator", &RuleSpec::initial_accumulator)
      .def_rw("l1", &RuleSpec::l1)
      .def_rw("l2", &RuleSpec::l2)
      .def_rw("lr_power", &RuleSpec::lr_power)
      .def_rw("nesterov", &RuleSpec::nesterov)
      .def_rw("centered", &RuleSpec::centered)
      .def_rw("amsgrad", &RuleSpec::amsgrad);
  nb::class_<InitSpec>(module, "InitSpec")
      .def(nb::init<>())
      .def_rw("kind", &InitSpec::kind)
      .def_rw("a", &InitSpec::a)
      .def_rw("b", &InitSpec::b)
      .def_rw("low", &InitSpec::low)
      .def_rw("high", &InitSpec::high);
  nb::enum_<AdmissionKind>(module, "AdmissionKind")
      .value("all", AdmissionKind::kAll)
      .value("count", AdmissionKind::kCount)
      .value("probability", AdmissionKind::kProbability)
      .value("show_click", AdmissionKind::kShowClick);
  nb::class_<AdmissionSpec>(module, "AdmissionSpec")
      .def(nb::init<>())
      .def_rw("kind", &AdmissionSpec::kind)
      .def_rw("threshold", &AdmissionSpec::threshold)
      .def_rw("probability", &AdmissionSpec::probability)
      .def_rw("show_weight", &AdmissionSpec::show_weight)
      .def_rw("click_weight", &AdmissionSpec::click_weight)
      .def_rw("waiting", &AdmissionSpec::waiting)
      .def("admits_all", &AdmissionSpec::admits_all)
      .def("keeps_scores", &AdmissionSpec::keeps_scores);
  nb::class_<BlockSpec>(module, "BlockSpec")
      .def(nb::init<>())
      .def_rw("id", &BlockSpec::id)
      .def_rw("offset", &BlockSpec::offset)
      .def_rw("length", &BlockSpec::length);
  nb::class_<TableSpec>(module, "TableSpec")
      .def(nb::init<>())
      .def_rw("name", &TableSpec::name)
      .def_rw("kind", &TableSpec::kind)
      .def_rw("storage", &TableSpec::storage)
      .def_rw("allow_nonfinite", &TableSpec::allow_nonfinite)
      .def_rw("dim", &TableSpec::dim)
      .def_rw("shape", &TableSpec::shape)
      .def_rw("seed", &TableSpec::seed)
      .def_rw("rule", &TableSpec::rule)
      .def_rw("init", &TableSpec::init)
      .def_rw("admission", &TableSpec::admission)
      .def_rw("blocks", &TableSpec::blocks)
      .def("validate", [](const TableSpec& spec) { check(validate(spec)); });

  module.def("difference", &difference, nb::arg("there"), nb::arg("here"));
  module.attr("SHARDS") = kShards;
  module.attr("MAX_COUNT") = kMaxCount;
  module.def("hash_name", [](const std::string& name) { return hash_name(name); }, nb::arg("name"));
  module.def("shard_of", [](int64_t key) { return shard_of(static_cast<Key>(key)); }, nb::arg("key"));
}

}  // namespace flota
