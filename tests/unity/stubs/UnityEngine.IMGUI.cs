// Stand-ins for UnityEngine: the immediate-mode interface that a console is drawn with.

namespace UnityEngine
{
    public enum EventType
    {
        MouseDown = 0,
        MouseUp = 1,
        MouseMove = 2,
        MouseDrag = 3,
        KeyDown = 4,
        KeyUp = 5,
        ScrollWheel = 6,
        Repaint = 7,
        Layout = 8,
        Ignore = 11,
        Used = 12,
    }

    public enum KeyCode
    {
        None = 0,
        Backspace = 8,
        Tab = 9,
        Return = 13,
        Escape = 27,
        Space = 32,
        BackQuote = 96,
        UpArrow = 273,
        DownArrow = 274,
        RightArrow = 275,
        LeftArrow = 276,
        KeypadEnter = 271,
        F1 = 282,
        F2 = 283,
    }

    public enum TextAnchor
    {
        UpperLeft = 0,
        UpperCenter = 1,
        UpperRight = 2,
        MiddleLeft = 3,
        MiddleCenter = 4,
        MiddleRight = 5,
        LowerLeft = 6,
        LowerCenter = 7,
        LowerRight = 8,
    }

    public enum FontStyle
    {
        Normal,
        Bold,
        Italic,
        BoldAndItalic,
    }

    public sealed class Event
    {
        public Event() { }

        public static Event current { get; set; }

        public EventType type { get; set; }

        public KeyCode keyCode { get; set; }

        public char character { get; set; }

        public Vector2 mousePosition { get; set; }

        public bool isKey => default;

        public bool isMouse => default;

        public bool shift { get; set; }

        public bool control { get; set; }

        public bool alt { get; set; }

        public void Use() { }
    }

    public class GUIContent
    {
        public static GUIContent none;

        public GUIContent() { }

        public GUIContent(string text) { }

        public string text { get; set; }

        public string tooltip { get; set; }
    }

    public class GUI
    {
        public static Color color { get; set; }

        public static Color backgroundColor { get; set; }

        public static Color contentColor { get; set; }

        public static bool changed { get; set; }

        public static bool enabled { get; set; }

        public static int depth { get; set; }

        public static Matrix4x4 matrix { get; set; }

        public static GUISkin skin { get; set; }

        public static void Box(Rect position, string text) { }

        public static bool Button(Rect position, string text) => default;

        public static void DrawTexture(Rect position, Texture image) { }

        public static void FocusControl(string name) { }

        public static string GetNameOfFocusedControl() => default;

        public static void Label(Rect position, string text) { }

        public static void Label(Rect position, string text, GUIStyle style) { }

        public static void SetNextControlName(string name) { }

        public static string TextField(Rect position, string text) => default;
    }

    public class GUILayout
    {
        public GUILayout() { }

        public static void BeginArea(Rect screenRect) { }

        public static void BeginArea(Rect screenRect, GUIStyle style) { }

        public static void BeginArea(Rect screenRect, string text, GUIStyle style) { }

        public static void EndArea() { }

        public static void BeginHorizontal(params GUILayoutOption[] options) { }

        public static void EndHorizontal() { }

        public static void BeginVertical(params GUILayoutOption[] options) { }

        public static void BeginVertical(GUIStyle style, params GUILayoutOption[] options) { }

        public static void EndVertical() { }

        public static Vector2 BeginScrollView(Vector2 scrollPosition, params GUILayoutOption[] options) => default;

        public static void EndScrollView() { }

        public static void Box(string text, params GUILayoutOption[] options) { }

        public static bool Button(string text, params GUILayoutOption[] options) => default;

        public static void FlexibleSpace() { }

        public static void Label(string text, params GUILayoutOption[] options) { }

        public static void Label(string text, GUIStyle style, params GUILayoutOption[] options) { }

        public static void Space(float pixels) { }

        public static string TextField(string text, params GUILayoutOption[] options) => default;

        public static string TextField(string text, GUIStyle style, params GUILayoutOption[] options) => default;

        public static string TextField(string text, int maxLength, params GUILayoutOption[] options) => default;

        public static string TextArea(string text, params GUILayoutOption[] options) => default;

        public static bool Toggle(bool value, string text, params GUILayoutOption[] options) => default;

        public static GUILayoutOption ExpandHeight(bool expand) => default;

        public static GUILayoutOption ExpandWidth(bool expand) => default;

        public static GUILayoutOption Height(float height) => default;

        public static GUILayoutOption MaxHeight(float maxHeight) => default;

        public static GUILayoutOption MinHeight(float minHeight) => default;

        public static GUILayoutOption MinWidth(float minWidth) => default;

        public static GUILayoutOption Width(float width) => default;
    }
}
