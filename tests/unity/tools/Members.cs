using System;
using System.Collections.Generic;
using System.Collections.Immutable;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Reflection.Metadata;
using System.Reflection.PortableExecutable;

namespace Tau.Tools
{
    /// <summary>
    /// Prints what assemblies offer to other assemblies, without loading them: one line for each type, base, interface,
    /// attribute and member. Two assemblies that offer the same thing print the same line for it.
    /// </summary>
    public static class Members
    {
        private const TypeAttributes PublicType = TypeAttributes.Public;
        private const TypeAttributes PublicNestedType = TypeAttributes.NestedPublic;

        /// <summary>Arguments: paths of assemblies.</summary>
        public static int Main(string[] paths)
        {
            var lines = new SortedSet<string>(StringComparer.Ordinal);
            foreach (string path in paths)
            {
                using (FileStream stream = File.OpenRead(path))
                using (var file = new PEReader(stream))
                {
                    Read(file.GetMetadataReader(), lines);
                }
            }
            foreach (string line in lines)
            {
                Console.WriteLine(line);
            }
            return 0;
        }

        private static void Read(MetadataReader reader, ISet<string> lines)
        {
            var names = new TypeNames();
            foreach (TypeDefinitionHandle handle in reader.TypeDefinitions)
            {
                TypeDefinition type = reader.GetTypeDefinition(handle);
                if (IsVisible(reader, type))
                {
                    ReadType(reader, names, handle, type, lines);
                }
            }
        }

        private static bool IsVisible(MetadataReader reader, TypeDefinition type)
        {
            TypeAttributes visibility = type.Attributes & TypeAttributes.VisibilityMask;
            return visibility == PublicType
                || (visibility == PublicNestedType
                    && IsVisible(reader, reader.GetTypeDefinition(type.GetDeclaringType())));
        }

        private static void ReadType(
            MetadataReader reader,
            TypeNames names,
            TypeDefinitionHandle handle,
            TypeDefinition type,
            ISet<string> lines)
        {
            string name = names.GetTypeFromDefinition(reader, handle, 0);
            bool isInterface = (type.Attributes & TypeAttributes.Interface) != 0;
            string kind = isInterface ? "interface" : "class";
            kind += (type.Attributes & TypeAttributes.Abstract) != 0 && !isInterface ? " abstract" : string.Empty;
            kind += (type.Attributes & TypeAttributes.Sealed) != 0 ? " sealed" : string.Empty;
            lines.Add(name + " is " + kind + " of " + names.Of(reader, type.BaseType));
            foreach (InterfaceImplementationHandle each in type.GetInterfaceImplementations())
            {
                lines.Add(name + " implements " + names.Of(reader, reader.GetInterfaceImplementation(each).Interface));
            }
            foreach (CustomAttributeHandle each in type.GetCustomAttributes())
            {
                lines.Add(name + " has " + AttributeName(reader, names, each));
            }
            foreach (FieldDefinitionHandle each in type.GetFields())
            {
                ReadField(reader, names, name, reader.GetFieldDefinition(each), lines);
            }
            foreach (MethodDefinitionHandle each in type.GetMethods())
            {
                ReadMethod(reader, names, name, reader.GetMethodDefinition(each), lines);
            }
        }

        private static string AttributeName(MetadataReader reader, TypeNames names, CustomAttributeHandle handle)
        {
            EntityHandle constructor = reader.GetCustomAttribute(handle).Constructor;
            return constructor.Kind == HandleKind.MethodDefinition
                ? names.Of(reader, reader.GetMethodDefinition((MethodDefinitionHandle)constructor).GetDeclaringType())
                : names.Of(reader, reader.GetMemberReference((MemberReferenceHandle)constructor).Parent);
        }

        private static void ReadField(
            MetadataReader reader, TypeNames names, string type, FieldDefinition field, ISet<string> lines)
        {
            FieldAttributes access = field.Attributes & FieldAttributes.FieldAccessMask;
            bool visible = access == FieldAttributes.Public || access == FieldAttributes.Family
                || access == FieldAttributes.FamORAssem;
            if (!visible || (field.Attributes & FieldAttributes.SpecialName) != 0)
            {
                return;
            }
            string line = type + "::" + reader.GetString(field.Name) + " " + field.DecodeSignature(names, null);
            line += access == FieldAttributes.Public ? string.Empty : " protected";
            line += (field.Attributes & FieldAttributes.Static) != 0 ? " static" : string.Empty;
            line += (field.Attributes & FieldAttributes.InitOnly) != 0 ? " readonly" : string.Empty;
            if (!field.GetDefaultValue().IsNil)
            {
                Constant constant = reader.GetConstant(field.GetDefaultValue());
                object value = reader.GetBlobReader(constant.Value).ReadConstant(constant.TypeCode);
                line += " = " + Convert.ToString(value, CultureInfo.InvariantCulture);
            }
            lines.Add(line);
        }

        private static void ReadMethod(
            MetadataReader reader, TypeNames names, string type, MethodDefinition method, ISet<string> lines)
        {
            MethodAttributes access = method.Attributes & MethodAttributes.MemberAccessMask;
            bool visible = access == MethodAttributes.Public || access == MethodAttributes.Family
                || access == MethodAttributes.FamORAssem;
            if (!visible)
            {
                return;
            }
            MethodSignature<string> signature = method.DecodeSignature(names, null);
            string line = type + "::" + Accessor(reader.GetString(method.Name)) + Generics(reader, names, method);
            line += "(" + string.Join(", ", Parameters(reader, names, method, signature)) + ") ";
            line += signature.ReturnType;
            line += access == MethodAttributes.Public ? string.Empty : " protected";
            line += (method.Attributes & MethodAttributes.Static) != 0 ? " static" : string.Empty;
            bool open = (method.Attributes & MethodAttributes.Virtual) != 0
                && (method.Attributes & MethodAttributes.Final) == 0;
            bool empty = (method.Attributes & MethodAttributes.Abstract) != 0;
            line += empty ? " abstract" : open ? " virtual" : string.Empty;
            lines.Add(line);
        }

        /// <summary>A property's and an event's methods go by the name of the property and the event.</summary>
        private static string Accessor(string name)
        {
            foreach (string kind in new[] { "get", "set", "add", "remove" })
            {
                if (name.StartsWith(kind + "_", StringComparison.Ordinal))
                {
                    return name.Substring(kind.Length + 1) + " " + kind;
                }
            }
            return name;
        }

        private static string Generics(MetadataReader reader, TypeNames names, MethodDefinition method)
        {
            var parts = new List<string>();
            foreach (GenericParameterHandle handle in method.GetGenericParameters())
            {
                GenericParameter parameter = reader.GetGenericParameter(handle);
                IEnumerable<string> bounds = parameter.GetConstraints()
                    .Select(each => names.Of(reader, reader.GetGenericParameterConstraint(each).Type));
                parts.Add("!!" + parameter.Index + (bounds.Any() ? ": " + string.Join(" & ", bounds) : string.Empty));
            }
            return parts.Count == 0 ? string.Empty : "<" + string.Join(", ", parts) + ">";
        }

        private static IEnumerable<string> Parameters(
            MetadataReader reader, TypeNames names, MethodDefinition method, MethodSignature<string> signature)
        {
            var types = signature.ParameterTypes.ToArray();
            foreach (ParameterHandle handle in method.GetParameters())
            {
                Parameter parameter = reader.GetParameter(handle);
                int index = parameter.SequenceNumber - 1;
                if (index < 0)
                {
                    continue;
                }
                bool open = parameter.GetCustomAttributes()
                    .Any(each => AttributeName(reader, names, each) == "System.ParamArrayAttribute");
                types[index] = (open ? "params " : string.Empty)
                    + ((parameter.Attributes & ParameterAttributes.Out) != 0 ? "out " : string.Empty)
                    + types[index]
                    + ((parameter.Attributes & ParameterAttributes.Optional) != 0 ? " = ?" : string.Empty);
            }
            return types;
        }
    }

    /// <summary>Writes types by their full names, whichever assembly they are in.</summary>
    internal sealed class TypeNames : ISignatureTypeProvider<string, object>
    {
        /// <summary>The name of a type that a table entry stands for; empty for none.</summary>
        public string Of(MetadataReader reader, EntityHandle handle)
        {
            if (handle.IsNil)
            {
                return string.Empty;
            }
            switch (handle.Kind)
            {
                case HandleKind.TypeDefinition:
                    return GetTypeFromDefinition(reader, (TypeDefinitionHandle)handle, 0);
                case HandleKind.TypeReference:
                    return GetTypeFromReference(reader, (TypeReferenceHandle)handle, 0);
                default:
                    return GetTypeFromSpecification(reader, null, (TypeSpecificationHandle)handle, 0);
            }
        }

        public string GetTypeFromDefinition(MetadataReader reader, TypeDefinitionHandle handle, byte rawTypeKind)
        {
            TypeDefinition type = reader.GetTypeDefinition(handle);
            string name = Full(reader.GetString(type.Namespace), reader.GetString(type.Name));
            return type.GetDeclaringType().IsNil
                ? name
                : GetTypeFromDefinition(reader, type.GetDeclaringType(), 0) + "." + name;
        }

        public string GetTypeFromReference(MetadataReader reader, TypeReferenceHandle handle, byte rawTypeKind)
        {
            TypeReference type = reader.GetTypeReference(handle);
            string name = Full(reader.GetString(type.Namespace), reader.GetString(type.Name));
            return type.ResolutionScope.Kind == HandleKind.TypeReference
                ? GetTypeFromReference(reader, (TypeReferenceHandle)type.ResolutionScope, 0) + "." + name
                : name;
        }

        public string GetTypeFromSpecification(
            MetadataReader reader, object context, TypeSpecificationHandle handle, byte rawTypeKind)
        {
            return reader.GetTypeSpecification(handle).DecodeSignature(this, context);
        }

        public string GetArrayType(string elementType, ArrayShape shape)
        {
            return elementType + "[" + new string(',', shape.Rank - 1) + "]";
        }

        public string GetByReferenceType(string elementType) => elementType + "&";

        public string GetFunctionPointerType(MethodSignature<string> signature) => "function";

        public string GetGenericInstantiation(string genericType, ImmutableArray<string> typeArguments)
        {
            return genericType + "<" + string.Join(", ", typeArguments) + ">";
        }

        public string GetGenericMethodParameter(object genericContext, int index) => "!!" + index;

        public string GetGenericTypeParameter(object genericContext, int index) => "!" + index;

        public string GetModifiedType(string modifier, string unmodifiedType, bool isRequired) => unmodifiedType;

        public string GetPinnedType(string elementType) => elementType;

        public string GetPointerType(string elementType) => elementType + "*";

        public string GetPrimitiveType(PrimitiveTypeCode typeCode) => typeCode.ToString();

        public string GetSZArrayType(string elementType) => elementType + "[]";

        private static string Full(string space, string name) => space.Length == 0 ? name : space + "." + name;
    }
}
