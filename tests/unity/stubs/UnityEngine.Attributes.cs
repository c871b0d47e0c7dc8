// Stand-ins for UnityEngine: attributes that the engine and its inspector read.
using System;

namespace UnityEngine
{
    public enum RuntimeInitializeLoadType
    {
        AfterSceneLoad = 0,
        BeforeSceneLoad = 1,
    }

    [AttributeUsage(AttributeTargets.Method, AllowMultiple = false)]
    public class RuntimeInitializeOnLoadMethodAttribute : Scripting.PreserveAttribute
    {
        public RuntimeInitializeOnLoadMethodAttribute() { }

        public RuntimeInitializeOnLoadMethodAttribute(RuntimeInitializeLoadType loadType) { }

        public RuntimeInitializeLoadType loadType => default;
    }

    public interface ISerializationCallbackReceiver
    {
        void OnBeforeSerialize();

        void OnAfterDeserialize();
    }

    public sealed class SerializeField : Attribute
    {
        public SerializeField() { }
    }

    [AttributeUsage(AttributeTargets.Class, AllowMultiple = true)]
    public sealed class RequireComponent : Attribute
    {
        public Type m_Type0;
        public Type m_Type1;
        public Type m_Type2;

        public RequireComponent(Type requiredComponent) { }

        public RequireComponent(Type requiredComponent, Type requiredComponent2) { }

        public RequireComponent(Type requiredComponent, Type requiredComponent2, Type requiredComponent3) { }
    }

    public sealed class DisallowMultipleComponent : Attribute
    {
        public DisallowMultipleComponent() { }
    }

    public class DefaultExecutionOrder : Attribute
    {
        public DefaultExecutionOrder(int order) { }

        public int order => default;
    }

    public sealed class AddComponentMenu : Attribute
    {
        public AddComponentMenu(string menuName) { }

        public AddComponentMenu(string menuName, int order) { }

        public string componentMenu => default;

        public int componentOrder => default;
    }

    public sealed class ExecuteInEditMode : Attribute
    {
        public ExecuteInEditMode() { }
    }

    public sealed class HideInInspector : Attribute
    {
        public HideInInspector() { }
    }

    [AttributeUsage(AttributeTargets.Class, AllowMultiple = false, Inherited = false)]
    public sealed class CreateAssetMenuAttribute : Attribute
    {
        public CreateAssetMenuAttribute() { }

        public string menuName { get; set; }

        public string fileName { get; set; }

        public int order { get; set; }
    }

    [AttributeUsage(AttributeTargets.Field, Inherited = true, AllowMultiple = false)]
    public abstract class PropertyAttribute : Attribute
    {
        protected PropertyAttribute() { }

        public int order { get; set; }
    }

    [AttributeUsage(AttributeTargets.Field, Inherited = true, AllowMultiple = true)]
    public class HeaderAttribute : PropertyAttribute
    {
        public readonly string header;

        public HeaderAttribute(string header) { }
    }

    [AttributeUsage(AttributeTargets.Field, Inherited = true, AllowMultiple = false)]
    public class TooltipAttribute : PropertyAttribute
    {
        public readonly string tooltip;

        public TooltipAttribute(string tooltip) { }
    }

    [AttributeUsage(AttributeTargets.Field, Inherited = true, AllowMultiple = true)]
    public class SpaceAttribute : PropertyAttribute
    {
        public readonly float height;

        public SpaceAttribute() { }

        public SpaceAttribute(float height) { }
    }

    [AttributeUsage(AttributeTargets.Field, Inherited = true, AllowMultiple = false)]
    public sealed class RangeAttribute : PropertyAttribute
    {
        public readonly float min;
        public readonly float max;

        public RangeAttribute(float min, float max) { }
    }

    [AttributeUsage(AttributeTargets.Field, Inherited = true, AllowMultiple = false)]
    public sealed class TextAreaAttribute : PropertyAttribute
    {
        public readonly int minLines;
        public readonly int maxLines;

        public TextAreaAttribute() { }

        public TextAreaAttribute(int minLines, int maxLines) { }
    }
}

namespace UnityEngine.Scripting
{
    [AttributeUsage(
        AttributeTargets.Assembly | AttributeTargets.Class | AttributeTargets.Struct | AttributeTargets.Enum
            | AttributeTargets.Constructor | AttributeTargets.Method | AttributeTargets.Property
            | AttributeTargets.Field | AttributeTargets.Event | AttributeTargets.Interface | AttributeTargets.Delegate,
        Inherited = false)]
    public class PreserveAttribute : Attribute
    {
        public PreserveAttribute() { }
    }
}

namespace UnityEngine.Serialization
{
    [AttributeUsage(AttributeTargets.Field, AllowMultiple = true, Inherited = false)]
    public class FormerlySerializedAsAttribute : Attribute
    {
        public FormerlySerializedAsAttribute(string oldName) { }

        public string oldName => default;
    }
}
