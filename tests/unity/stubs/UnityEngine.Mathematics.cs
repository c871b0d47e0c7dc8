// Stand-ins for UnityEngine: colours, rectangles, and the functions on numbers.

namespace UnityEngine
{
    public struct Color
    {
        public float r;
        public float g;
        public float b;
        public float a;

        public Color(float r, float g, float b, float a)
        {
            this.r = r;
            this.g = g;
            this.b = b;
            this.a = a;
        }

        public Color(float r, float g, float b)
        {
            this.r = r;
            this.g = g;
            this.b = b;
            a = 1f;
        }

        public static Color red => default;

        public static Color green => default;

        public static Color blue => default;

        public static Color white => default;

        public static Color black => default;

        public static Color yellow => default;

        public static Color cyan => default;

        public static Color magenta => default;

        public static Color gray => default;

        public static Color grey => default;

        public static Color clear => default;

        public static bool operator ==(Color lhs, Color rhs) => default;

        public static bool operator !=(Color lhs, Color rhs) => default;

        public static Color operator *(Color a, float b) => default;

        public static Color Lerp(Color a, Color b, float t) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public override string ToString() => default;
    }

    public struct Rect
    {
        public Rect(float x, float y, float width, float height) { }

        public float x
        {
            get => default;
            set { }
        }

        public float y
        {
            get => default;
            set { }
        }

        public float width
        {
            get => default;
            set { }
        }

        public float height
        {
            get => default;
            set { }
        }

        public float xMin
        {
            get => default;
            set { }
        }

        public float yMin
        {
            get => default;
            set { }
        }

        public float xMax
        {
            get => default;
            set { }
        }

        public float yMax
        {
            get => default;
            set { }
        }

        public Vector2 position
        {
            get => default;
            set { }
        }

        public Vector2 center
        {
            get => default;
            set { }
        }

        public Vector2 size
        {
            get => default;
            set { }
        }

        public static bool operator ==(Rect lhs, Rect rhs) => default;

        public static bool operator !=(Rect lhs, Rect rhs) => default;

        public bool Contains(Vector2 point) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public override string ToString() => default;
    }

    public struct LayerMask
    {
        public int value
        {
            get => default;
            set { }
        }

        public static implicit operator int(LayerMask mask) => default;

        public static implicit operator LayerMask(int intVal) => default;

        public static int GetMask(params string[] layerNames) => default;

        public static int NameToLayer(string layerName) => default;
    }

    public struct Mathf
    {
        public const float PI = 3.14159274f;
        public const float Infinity = float.PositiveInfinity;
        public const float Deg2Rad = 0.0174532924f;
        public const float Rad2Deg = 57.29578f;

        public static readonly float Epsilon = 0f;

        public static float Abs(float f) => default;

        public static int Abs(int value) => default;

        public static bool Approximately(float a, float b) => default;

        public static float Ceil(float f) => default;

        public static int CeilToInt(float f) => default;

        public static float Clamp(float value, float min, float max) => default;

        public static int Clamp(int value, int min, int max) => default;

        public static float Clamp01(float value) => default;

        public static float Cos(float f) => default;

        public static float Floor(float f) => default;

        public static int FloorToInt(float f) => default;

        public static float Lerp(float a, float b, float t) => default;

        public static float Max(float a, float b) => default;

        public static int Max(int a, int b) => default;

        public static float Min(float a, float b) => default;

        public static int Min(int a, int b) => default;

        public static float MoveTowards(float current, float target, float maxDelta) => default;

        public static float Pow(float f, float p) => default;

        public static float Round(float f) => default;

        public static int RoundToInt(float f) => default;

        public static float Sign(float f) => default;

        public static float Sin(float f) => default;

        public static float Sqrt(float f) => default;
    }

    public sealed class Random
    {
        private Random() { }

        public static float value => default;

        public static Vector2 insideUnitCircle => default;

        public static Vector3 insideUnitSphere => default;

        public static Vector3 onUnitSphere => default;

        public static Quaternion rotation => default;

        public static void InitState(int seed) { }

        public static float Range(float minInclusive, float maxInclusive) => default;

        public static int Range(int minInclusive, int maxExclusive) => default;
    }
}
