#pragma once

// Reaches a private member of a class under test, for states that take years to come about otherwise.
//
//   FLOTA_PRIVATE_MEMBER(Router, stamp_, uint32_t)    at namespace scope
//   private_stamp_(router) = ...
//
// The language ignores access in explicit instantiations; this is what that is good for.
#define FLOTA_PRIVATE_MEMBER(Class, member, Type)                            \
  Type& private_##member(Class& object);                                     \
  template <Type Class::* kMember>                                           \
  struct Private_##member {                                                  \
    friend Type& private_##member(Class& object) { return object.*kMember; } \
  };                                                                         \
  template struct Private_##member<&Class::member>;
