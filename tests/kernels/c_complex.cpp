// Prints what C's complex functions give at every pair of the parts on the command line: the reference of
// test_annex_g.py.
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <vector>

template <class T> void table(const char *dtype, const std::vector<double> &parts) {
  typedef std::complex<T> C;
  typedef C (*Function)(const C &);
  static const struct { const char *name; Function f; } all[] = {
      {"exp", std::exp<T>},     {"log", std::log<T>},     {"log10", std::log10<T>}, {"sqrt", std::sqrt<T>},
      {"sin", std::sin<T>},     {"cos", std::cos<T>},     {"tan", std::tan<T>},     {"sinh", std::sinh<T>},
      {"cosh", std::cosh<T>},   {"tanh", std::tanh<T>},   {"arcsin", std::asin<T>}, {"arccos", std::acos<T>},
      {"arctan", std::atan<T>}, {"arcsinh", std::asinh<T>}, {"arccosh", std::acosh<T>}, {"arctanh", std::atanh<T>}};
  for (const auto &each : all)
    for (double x : parts)
      for (double y : parts) {
        C w = each.f(C((T)x, (T)y));
        std::printf("%s %s %a %a %a %a\n", dtype, each.name, x, y, (double)w.real(), (double)w.imag());
      }
}

int main(int count, char **values) {
  std::vector<double> parts;
  for (int k = 2; k < count; ++k) parts.push_back(std::strtod(values[k], nullptr));
  if (values[1][7] == '6') table<float>("complex64", parts); else table<double>("complex128", parts);
}
